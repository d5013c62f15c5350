//! The processor: its size, SMT, and settings that take lanes away from any scheduler.

use super::Finding;
use super::source::{Source, Unreadable};
use crate::layout::Layout;
use sidelane_topology::reserved::{Reason, Reserved};
use sidelane_topology::{CpuList, ReadError, SmtControl, Topology, printable};
use std::io::ErrorKind;

const CPUS: &str = "sys/devices/system/cpu";

/// How many things that are unknown of the machine are told; the rest is counted.
const NOTES_MAX: usize = 3;

pub(super) fn topology(source: &Source) -> Result<Finding, Unreadable> {
    let machine = match Topology::read(source.root()) {
        Ok(machine) => machine,
        Err(error) => return Ok(Finding::fail(error.to_string(), remedy(source, &error)?)),
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
    let notes = machine.notes();
    if notes.is_empty() {
        return Ok(Finding::ok(seen));
    }
    seen.push_str("; unknown: ");
    seen.push_str(&notes[..notes.len().min(NOTES_MAX)].join("; "));
    if let Some(more @ 1..) = notes.len().checked_sub(NOTES_MAX) {
        seen.push_str(&format!("; and {more} more, see `sidelane topology`"));
    }
    Ok(Finding::warning(
        seen,
        "the scheduler runs without knowing that; newer firmware, kernel or hypervisor may tell it",
    ))
}

/// What to do about a machine that cannot be read.
fn remedy(source: &Source, error: &ReadError) -> Result<&'static str, Unreadable> {
    Ok(match error {
        ReadError::Missing { .. } if source.names(CPUS)?.is_empty() => {
            "mount sysfs at /sys; the scheduler must know which lanes share a core"
        }
        ReadError::Missing { .. } => {
            "run on the machine itself, not where its sysfs is hidden (some containers and sandboxes); the scheduler must \
             know which lanes share a core"
        }
        ReadError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "run the doctor as root"
        }
        ReadError::Io { .. } => "look why the file cannot be read",
        ReadError::Changing => "try again when no CPU goes on- or offline",
        ReadError::Malformed { .. } | ReadError::Build(_) => {
            "update firmware, kernel or hypervisor, or give the virtual machine another arrangement of CPUs: this one says \
             what cannot be, and the scheduler must know which lanes share a core"
        }
    })
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

fn union(a: &CpuList, b: &CpuList) -> CpuList {
    a.iter().chain(b.iter()).collect()
}

/// CPUs that no task outside is placed on.
pub(super) fn isolated(source: &Source) -> Result<Finding, Unreadable> {
    let reserved = Reserved::read(source.root());
    let (isolated, partition) = (
        reserved.by(Reason::Isolated),
        reserved.by(Reason::Partition),
    );
    let line = source.text("proc/cmdline")?.unwrap_or_default();
    let mut parameters = values(&line, "isolcpus");
    let domain = parameters.find(|value| isolates_from_domains(value));
    Ok(match domain {
        // The kernel refuses every sched_ext scheduler then.
        Some(value) if !isolated.is_empty() => Finding::fail(
            format!("CPUs {isolated}, by the kernel parameter isolcpus={value}"),
            "boot without isolcpus=; use a cpuset partition to keep tasks off these CPUs",
        ),
        _ if !partition.is_empty() || !isolated.is_empty() => Finding::warning(
            format!(
                "CPUs {}, by a cpuset partition",
                union(&isolated, &partition)
            ),
            "tasks outside the partition never run there; dissolve it if Sidelane is to use them",
        ),
        _ if !reserved.notes().is_empty() => Finding::unknown(
            reserved.notes().join("; "),
            "look why it cannot be read; the scheduler heeds each task's affinity in any case",
        ),
        _ => Finding::ok("none"),
    })
}

pub(super) fn nohz_full(source: &Source) -> Result<Finding, Unreadable> {
    let cpus = Reserved::read(source.root()).by(Reason::NohzFull);
    Ok(match cpus.is_empty() {
        true => Finding::ok("none"),
        false => Finding::warning(
            format!(
                "CPUs {cpus}: where they idle without tick, kernels have left threads bound to them waiting \
                 for ever beside a sched_ext scheduler; where they work for it, the tick runs"
            ),
            "boot without nohz_full=",
        ),
    })
}

/// CPUs that Kubernetes gave to single containers.
pub(super) fn cpu_manager(source: &Source) -> Result<Finding, Unreadable> {
    let reserved = Reserved::read(source.root());
    Ok(match reserved.cpu_manager() {
        None => Finding::ok("none"),
        Some(manager) if manager.given.is_empty() => {
            Finding::ok("kubelet's is at work, and has given away no CPU")
        }
        Some(manager) => Finding::warning(
            format!(
                "CPUs {} belong to one container each ({})",
                manager.given,
                printable(manager.path.as_os_str().as_encoded_bytes())
            ),
            "other work still runs on their siblings: keep it off these, too, by a cpuset, where a container is to have \
             its cores alone",
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

/// The values that the parameter `name` is given on the kernel's command line. What follows `--` belongs to the first
/// process; a parameter of a module has the module's name and a dot before its own.
fn values<'a>(line: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let own = words(line).take_while(|word| *word != "--");
    own.filter_map(move |word| {
        let (given, value) = word.split_once('=')?;
        let same = given.bytes().map(dashed).eq(name.bytes().map(dashed));
        same.then(|| value.trim_matches('"'))
    })
}

/// `-` and `_` are the same in the name of a parameter.
fn dashed(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte }
}

/// The words between white space; what stands in quotes is one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c.is_ascii_whitespace() && !quoted
    })
    .map(|word| match word.strip_prefix('"') {
        Some(inner) => inner.strip_suffix('"').unwrap_or(inner),
        None => word,
    })
    .filter(|word| !word.is_empty())
}

/// Does `isolcpus=VALUE` take CPUs from the scheduler's domains? With other flags alone it only keeps
/// interrupts or the tick away; flags that the kernel does not know it skips.
fn isolates_from_domains(value: &str) -> bool {
    let flags = value
        .split(',')
        .take_while(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
    let known = flags.filter(|flag| matches!(*flag, "domain" | "managed_irq" | "nohz"));
    let known: Vec<&str> = known.collect();
    known.is_empty() || known.contains(&"domain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_parameters_count() {
        for (line, expected) in [
            ("quiet isolcpus=1 ro", &["1"][..]),
            ("isolcpus=1 -- isolcpus=2", &["1"]),
            ("quiet -- isolcpus=2", &[]),
            ("driver.isolcpus=2 xisolcpus=3 isolcpus", &[]),
            (
                "a=\"x isolcpus=2 y\" \"isolcpus=3\" isolcpus=\"4-5\"",
                &["3", "4-5"],
            ),
            ("isolcpus=domain,1\tisolcpus=2\n", &["domain,1", "2"]),
        ] {
            let found: Vec<&str> = values(line, "isolcpus").collect();
            assert_eq!(found, expected, "{line}");
        }
        assert_eq!(values("nohz-full=1", "nohz_full").next(), Some("1"));
    }

    #[test]
    fn flags_of_isolcpus() {
        for (value, isolates) in [
            ("1-3", true),
            ("domain,1-3", true),
            ("managed_irq,1-3", false),
            ("nohz,managed_irq,1-3", false),
            ("nohz,domain,managed_irq,1-3", true),
            ("unheard,1-3", true),
        ] {
            assert_eq!(isolates_from_domains(value), isolates, "{value}");
        }
    }
}
