//! The files below `/sys/devices/system/cpu`.

use crate::files::{read, write};
use crate::{Error, Result};
use sidelane_topology::{CpuList, SmtControl};
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a lane is switched again that the kernel calls busy, as while other CPUs come and go.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The kernel's CPU files below a root.
#[derive(Debug)]
pub struct Kernel {
    root: PathBuf,
}

impl Kernel {
    /// Below `/`, but in tests.
    pub fn new(root: &Path) -> Kernel {
        Kernel {
            root: root.to_owned(),
        }
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// CPUs that are online.
    pub fn online(&self) -> Result<CpuList> {
        let path = self.path("online");
        self.list(&path)?
            .ok_or_else(|| Error::io("find", &path, ErrorKind::NotFound.into()))
    }

    /// `smt/control`, if there is one.
    pub fn control(&self) -> Result<Option<String>> {
        read(&self.path("smt/control"))
    }

    /// Whether a state of `smt/control` can be changed.
    pub fn switches(control: Option<&str>) -> bool {
        control.is_some_and(|now| match now.parse() {
            Ok(SmtControl::On | SmtControl::Off | SmtControl::Lanes(_)) => true,
            Ok(_) | Err(_) => false,
        })
    }

    /// Writes `smt/control`.
    pub fn set_control(&self, word: &str) -> Result<()> {
        write(&self.path("smt/control"), word)
    }

    /// Sets a level through `smt/control`; false if this kernel has no word for it.
    pub fn set_level(&self, level: usize, lanes_max: usize) -> Result<bool> {
        let word = match level {
            _ if level >= lanes_max => "on".to_owned(),
            1 => "off".to_owned(),
            other => other.to_string(), // POWER, since Linux 6.6
        };
        match self.set_control(&word) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Refuses what could not be written later; changes nothing.
    pub fn check_writable(&self, lanes: impl Iterator<Item = u32>) -> Result<()> {
        let files = lanes.map(|cpu| self.path(&format!("cpu{cpu}/online")));
        for path in files.chain([self.path("smt/control")]) {
            let open = fs::OpenOptions::new().write(true).open(&path);
            match open {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(Error::io("write", &path, e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Switches `lanes` one by one until just those `kept` are online; no others. One that fails holds up
    /// no other, but none is taken while one that is kept does not come: it may be the last of its core.
    pub fn arrange(&self, lanes: &[u32], kept: &BTreeSet<u32>) -> Result<()> {
        let all_online = self.online()?;
        let appears = |online: &CpuList, cpu: &u32| kept.contains(cpu) && !online.contains(*cpu);
        let allowed = match lanes.iter().any(|cpu| appears(&all_online, cpu)) {
            true => self.let_appear(),
            false => Ok(()),
        };
        let online = self.online()?;
        let given = lanes.iter().filter(|cpu| appears(&online, cpu));
        given
            .map(|cpu| self.switch(*cpu, true))
            .fold(allowed, Result::and)?;
        let taken = lanes
            .iter()
            .filter(|cpu| !kept.contains(cpu) && online.contains(**cpu));
        taken
            .map(|cpu| self.switch(*cpu, false))
            .fold(Ok(()), Result::and)
    }

    /// Below "on" the kernel lets no lane appear.
    fn let_appear(&self) -> Result<()> {
        let control = self.control()?;
        match Kernel::switches(control.as_deref()) && control.as_deref() != Some("on") {
            true => self.set_control("on"),
            false => Ok(()),
        }
    }

    /// Whether a lane is there, online or not: a hypervisor may eject it.
    pub fn has(&self, cpu: u32) -> bool {
        let folder = self.path(&format!("cpu{cpu}"));
        !matches!(folder.try_exists(), Ok(false))
    }

    fn switch(&self, cpu: u32, online: bool) -> Result<()> {
        if !self.has(cpu) {
            return Ok(()); // nothing to switch
        }
        let path = self.path(&format!("cpu{cpu}/online"));
        let word = if online { "1" } else { "0" };
        for _ in 1..ATTEMPTS {
            match write(&path, word) {
                Err(Error::Io { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {
                    std::thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
        write(&path, word)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join("sys/devices/system/cpu").join(name)
    }

    /// A list of CPUs; none if there is no file.
    fn list(&self, path: &Path) -> Result<Option<CpuList>> {
        let Some(text) = read(path)? else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|e: sidelane_topology::CpuListError| {
                let reason = std::io::Error::new(ErrorKind::InvalidData, e.to_string());
                Error::io("make sense of", path, reason)
            })
    }
}
