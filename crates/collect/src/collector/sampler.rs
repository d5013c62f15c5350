//! Looks at all lanes from one of them, so many times a second.

use super::failed;
use crate::Error;
use libbpf_rs::{Link, ProgramMut};
use perf_event::Builder;
use perf_event::events::Software;
use sidelane_topology::Topology;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::IntoRawFd;
use std::path::Path;

/// How often it may look. Below, nothing is left to tell; the kernel's own limit lies above.
pub const SAMPLE_HZ: std::ops::RangeInclusive<u32> = 10..=10_000;

/// The kernel's variable that it looks at.
const LOOKED_AT: &str = "runqueues";

/// Refuses a kernel that tells no address of it: only with CONFIG_KALLSYMS_ALL it tells those of variables.
///
/// # Errors
/// [`Error::NoAddress`].
pub(super) fn check(root: &Path) -> Result<(), Error> {
    let path = root.join("proc/kallsyms");
    // address, type, name; where the file cannot be read, loading tells
    let Ok(file) = File::open(&path) else {
        return Ok(());
    };
    let is_it = |line: &String| line.split_ascii_whitespace().nth(2) == Some(LOOKED_AT);
    match BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .any(|line| is_it(&line))
    {
        true => Ok(()),
        false => Err(Error::NoAddress {
            path,
            symbol: LOOKED_AT,
        }),
    }
}

/// Looks as long as it lives.
pub(super) struct Sampler {
    _link: Link,
    /// The lane from which it looks.
    pub(super) cpu: u32,
}

impl Sampler {
    /// From the first lane that is online, `hz` times a second ([`SAMPLE_HZ`]).
    pub(super) fn start(
        program: &ProgramMut,
        topology: &Topology,
        hz: u32,
    ) -> Result<Sampler, Error> {
        let online = topology.online();
        let cpu = online.iter().next().unwrap_or_default();
        let clock = Builder::new(Software::CPU_CLOCK)
            .any_pid()
            .one_cpu(cpu as usize)
            .include_kernel()
            .sample_period(1_000_000_000 / u64::from(hz.max(1)))
            .enabled(true)
            .build()
            .map_err(failed("open the clock of"))?;
        // the link closes it
        let link = program.attach_perf_event(clock.into_raw_fd());
        Ok(Sampler {
            _link: link.map_err(failed("attach"))?,
            cpu,
        })
    }

    /// What is to be known of figures that it found.
    pub(super) fn note(hz: u32) -> String {
        format!(
            "Looked at the lanes {hz} times a second: times are estimates; waits, jobs, and tasks between two looks were not \
             seen and read 0."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_addresses_of_variables_is_refused_with_the_remedy() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let file = root.path().join("proc/kallsyms");
        let functions = "0000000000000000 T _text\n0000000000000000 t init_runqueues\n";
        std::fs::write(&file, functions).unwrap();
        let error = check(root.path()).unwrap_err();
        assert!(error.is_machine());
        let said = error.to_string();
        assert!(
            said.starts_with(&format!("{}: the kernel", file.display())),
            "{said}"
        );
        assert!(said.contains("CONFIG_KALLSYMS_ALL=y") && said.contains("leave --sample out"));
        let all = format!("{functions}0000000000000000 D runqueues\n");
        std::fs::write(&file, all).unwrap();
        assert!(check(root.path()).is_ok());
    }
}
