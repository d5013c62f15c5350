//! The processor: its size, SMT, and settings that take lanes away from any scheduler.

use super::Finding;
use super::source::{Source, Unreadable};
use crate::layout::Layout;
use sidelane_topology::{SmtControl, Topology};

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn topology(source: &Source) -> Result<Finding, Unreadable> {
    let machine = match Topology::read(source.root()) {
        Ok(machine) => machine,
        Err(error) => {
            let remedy = "mount sysfs at /sys; the scheduler must know which lanes share a core";
            return Ok(Finding::fail(error.to_string(), remedy));
        }
    };
    if let Err(error) = Layout::new(&machine) {
        return Ok(Finding::fail(
            error.to_string(),
            "use a build with higher limits",
        ));
    }
    let mut seen = format!(
        "cores: {}, lanes online: {}",
        machine.cores().len(),
        machine.online().len()
    );
    if !machine.offline().is_empty() {
        seen.push_str(&format!(", CPUs offline: {}", machine.offline()));
    }
    Ok(Finding::ok(seen))
}

pub(super) fn smt(source: &Source) -> Result<Finding, Unreadable> {
    let Ok(machine) = Topology::read(source.root()) else {
        let remedy = "first make the topology readable, see above";
        return Ok(Finding::unknown("the topology cannot be read", remedy));
    };
    let lanes = machine
        .cores()
        .iter()
        .map(|core| core.online_lanes().count())
        .max()
        .unwrap_or(1);
    if lanes > 1 {
        return Ok(Finding::ok(format!("up to {lanes} lanes online in a core")));
    }
    Ok(match machine.smt().control {
        Some(SmtControl::Off) => Finding::warning(
            "switched off: no core has a second lane to lend",
            "echo on > /sys/devices/system/cpu/smt/control",
        ),
        Some(SmtControl::ForceOff) => Finding::warning(
            "switched off until the next boot: no core has a second lane to lend",
            "boot without nosmt=force (or mitigations=auto,nosmt)",
        ),
        _ if !machine.offline().is_empty() => Finding::warning(
            format!(
                "no core has a second lane online; CPUs {} are offline",
                machine.offline()
            ),
            "echo 1 > /sys/devices/system/cpu/cpuN/online for the second lanes",
        ),
        _ => Finding::warning(
            "no core has a second lane: there is nothing to lend",
            "switch SMT on in the firmware, or give the virtual machine threads (QEMU: -smp threads=2)",
        ),
    })
}

/// The content of a file that lists CPUs; empty if there is none. Some kernels print `(null)` for
/// an empty list.
fn listed(source: &Source, file: &str) -> Result<String, Unreadable> {
    let list = source.text(file)?.unwrap_or_default();
    Ok(if list == "(null)" {
        String::new()
    } else {
        list
    })
}

pub(super) fn isolated(source: &Source) -> Result<Finding, Unreadable> {
    let cpus = listed(source, &format!("{CPUS}/isolated"))?;
    if cpus.is_empty() {
        return Ok(Finding::ok("none"));
    }
    let parameters = source.text("proc/cmdline")?.unwrap_or_default();
    Ok(
        match parameters
            .split_whitespace()
            .find(|word| word.starts_with("isolcpus="))
        {
            // The kernel refuses every sched_ext scheduler while this parameter is given.
            Some(parameter) => Finding::fail(
                format!("CPUs {cpus}, by the kernel parameter {parameter}"),
                "boot without isolcpus=; use a cpuset partition to keep tasks off these CPUs",
            ),
            None => Finding::warning(
                format!("CPUs {cpus}, by a cpuset partition"),
                "tasks outside the partition never run there; dissolve it if Sidelane is to use them",
            ),
        },
    )
}

pub(super) fn nohz_full(source: &Source) -> Result<Finding, Unreadable> {
    let cpus = listed(source, &format!("{CPUS}/nohz_full"))?;
    Ok(match cpus.is_empty() {
        true => Finding::ok("none"),
        false => Finding::warning(
            format!("CPUs {cpus}"),
            "time slices need the timer tick, which will run there; boot without nohz_full= if \
             these CPUs are to be shared",
        ),
    })
}

/// Drivers whose `powersave` governor still raises the frequency under load.
const ADAPTIVE_POWERSAVE: [&str; 3] = ["intel_pstate", "amd-pstate", "amd-pstate-epp"];

pub(super) fn frequency(source: &Source) -> Result<Finding, Unreadable> {
    let mut governors: Vec<String> = Vec::new();
    let (mut policies, mut held_low) = (0, 0);
    for policy in source.names(&format!("{CPUS}/cpufreq"))? {
        let file = |name: &str| format!("{CPUS}/cpufreq/{policy}/{name}");
        let Some(governor) = source.text(&file("scaling_governor"))? else {
            continue;
        };
        let driver = source.text(&file("scaling_driver"))?.unwrap_or_default();
        policies += 1;
        if governor == "powersave" && !ADAPTIVE_POWERSAVE.contains(&driver.as_str()) {
            held_low += 1;
        }
        if !governors.contains(&governor) {
            governors.push(governor);
        }
    }
    Ok(match (policies, held_low) {
        (0, _) => Finding::ok("not under the kernel's control"),
        (_, 0) => Finding::ok(format!("governor {}", governors.join(", "))),
        _ => Finding::warning(
            format!("{held_low} of {policies} frequency policies hold the lowest frequency"),
            "cpupower frequency-set -g schedutil (or performance)",
        ),
    })
}
