//! What the machine says of itself.

use super::calibration::Machine;
use sidelane_topology::Topology;
use std::fs;
use std::path::Path;

/// The machine below a root folder.
pub(super) fn describe(root: &Path, topology: &Topology) -> Machine {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let cpuinfo = read("proc/cpuinfo");
    let tree_model = || read("sys/firmware/devicetree/base/model");
    let model = field(&cpuinfo, "model name").map_or_else(tree_model, str::to_owned);
    let model = model.trim_matches(['\0', '\n', ' ']);
    Machine {
        model: if model.is_empty() { "unknown" } else { model }.to_owned(),
        kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
        cores: topology.cores().len(),
        lanes: topology.online().len(),
        virtual_machine: field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
    }
}

/// The first `name : value` of `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn the_processor_is_named() {
        let root = tempfile::tempdir().unwrap();
        let cores = Builder::new().core(CoreSpec::new([0, 1]));
        let topology = cores.build().unwrap();
        assert_eq!(describe(root.path(), &topology).model, "unknown");
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.12.1\n").unwrap();
        let cpuinfo = "processor\t: 0\nmodel name\t: A B: C\nflags\t\t: fpu hypervisor lm\n";
        fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let machine = describe(root.path(), &topology);
        assert_eq!(
            (machine.model.as_str(), machine.kernel.as_str()),
            ("A B: C", "6.12.1")
        );
        assert_eq!(
            (machine.cores, machine.lanes, machine.virtual_machine),
            (1, 2, true)
        );
    }
}
