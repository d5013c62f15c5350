//! The emulator to run: the machine's own where it is new enough, else a newer one of the
//! distribution, unpacked into the cache.
//!
//! Before version 8.1, QEMU's multi-threaded TCG can translate a page of code while another vCPU
//! rewrites it and keep the old bytes: a guest kernel that patches its own code (static keys: at
//! boot, when a scheduler is attached, when tracing starts) then now and then dies of a stale
//! breakpoint, "Oops: int3". The distribution's backports have a newer QEMU that runs with the same
//! libraries.
//!
//! Where it can load the plug-in `turns.c`, lanes of one core take turns by yielding.

use crate::error::{During, Error, Interrupt, Result};
use crate::host;
use crate::kernel::Cache;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "qemu-system-x86_64";
/// The first version without the race.
const SAFE: (u32, u32) = (8, 1);
/// The backported packages; what else they need, the distribution's own QEMU has brought.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-data", "seabios"];
/// Where the packages keep firmware.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];

/// A QEMU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// The program.
    pub program: PathBuf,
    /// Folders of firmware that go with it; none for the machine's own.
    pub firmware: Vec<PathBuf>,
}

/// What the guest's processor does not have of all that TCG can emulate:
/// - `monitor`: with it the guest's idle loop would spin under TCG.
/// - `erms`, `fsrm`, `fsrs`: with them the guest copies and clears by `rep movsb` and `rep stosb`, which TCG executes byte by
///   byte; attaching the scheduler takes a fifth longer, for the kernel's verifier moves whole programs.
const WITHOUT: [&str; 4] = ["monitor", "erms", "fsrm", "fsrs"];

impl Emulator {
    /// The processor to emulate, as `-cpu` has it.
    pub fn processor(&self) -> Result<String> {
        let output = Command::new(&self.program)
            .args(["-cpu", "help"])
            .output()
            .during(|| format!("run {}", self.program.display()))?;
        Ok(processor(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// The processor, of an emulator that says this of what it knows; it refuses to leave out what it does not know.
fn processor(help: &str) -> String {
    let known = |word: &&str| help.split_whitespace().any(|known| known == *word);
    let without = WITHOUT.iter().copied().filter(known);
    without.fold("max".to_owned(), |model, word| model + ",-" + word)
}

/// Finds the emulator, fetching it where the machine's own is too old.
pub fn find(interrupt: &Interrupt, notice: fn(&str)) -> Result<Emulator> {
    let own = Emulator {
        program: host::program(PROGRAM, "qemu-system-x86")?,
        firmware: Vec::new(),
    };
    let version = version_of(&own.program)?;
    if is_safe(version) {
        return Ok(own);
    }
    match backported(interrupt, notice) {
        Ok(emulator) => Ok(emulator),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            notice(&format!(
                "QEMU {}.{} may crash the guest's kernel now and then (before 8.1), and no newer \
                 one is to be had: {error}",
                version.0, version.1
            ));
            Ok(own)
        }
    }
}

fn backported(interrupt: &Interrupt, notice: fn(&str)) -> Result<Emulator> {
    let suite = backports(&std::fs::read_to_string("/etc/os-release").unwrap_or_default())?;
    let cache = Cache::open()?;
    let name = format!("qemu-{suite}");
    let tree = match cache.tree(&name) {
        Some(tree) => tree,
        None => {
            let locked = cache.lock(interrupt)?;
            notice(&format!("fetching a newer QEMU from {suite}"));
            locked.fetch_tree(&name, &suite, &PACKAGES)?
        }
    };
    let emulator = Emulator {
        program: tree.join("usr/bin").join(PROGRAM),
        firmware: FIRMWARE.map(|folder| tree.join(folder)).to_vec(),
    };
    version_of(&emulator.program)?;
    Ok(emulator)
}

/// The suite of backports for the distribution that an `os-release` file describes.
fn backports(os_release: &str) -> Result<String> {
    let field = |name: &str| {
        let mut lines = os_release.lines();
        lines.find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix('=')
                .map(|v| v.trim_matches('"'))
        })
    };
    match (field("ID"), field("VERSION_CODENAME")) {
        (Some("debian"), Some(codename)) => Ok(format!("{codename}-backports")),
        _ => Err(Error::Unsupported(
            "not a Debian release with backports; install QEMU 8.1 or later".into(),
        )),
    }
}

fn version_of(program: &Path) -> Result<(u32, u32)> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .during(|| format!("run {}", program.display()))?;
    parse_version(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| {
        Error::Unsupported(format!(
            "{} --version tells no version: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    })
}

fn is_safe(version: (u32, u32)) -> bool {
    version >= SAFE
}

/// Major and minor of "QEMU emulator version 7.2.22 (Debian …)".
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let version = text.split("version ").nth(1)?;
    let mut numbers = version.split(['.', ' ']).map(|n| n.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The plug-in, a shared object.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/turns.so"));

/// The plug-in's file.
pub struct Turns {
    file: PathBuf,
}

impl Turns {
    /// Writes the plug-in into a folder that is removed with the machine.
    pub fn write(folder: &Path) -> Result<Turns> {
        let file = folder.join("turns.so");
        std::fs::write(&file, PLUGIN).during(|| format!("write {}", file.display()))?;
        Ok(Turns { file })
    }

    /// Whether this QEMU can load it: not before version 9.1, nor where it was built without
    /// plug-ins.
    pub fn loads_into(&self, qemu: &Path) -> bool {
        let mut command = Command::new(qemu);
        command.args(["-nodefaults", "-display", "none", "-machine", "none"]);
        command.arg("-plugin").arg(self.with_options("try=1"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// What `-plugin` is to be given for turns of this length between so many lanes of a core.
    pub fn argument(&self, turn: Duration, lanes: usize) -> OsString {
        self.with_options(&format!("turn_ns={},lanes={lanes}", turn.as_nanos()))
    }

    fn with_options(&self, options: &str) -> OsString {
        let mut argument = OsString::from("file=");
        // A comma in the path would begin an option.
        argument.push(self.file.to_string_lossy().replace(',', ",,"));
        argument.push(format!(",{options}"));
        argument
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let old = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright\n";
        assert_eq!(parse_version(old), Some((7, 2)));
        assert_eq!(parse_version("QEMU emulator version 10.0"), Some((10, 0)));
        assert_eq!(parse_version("not found"), None);
        assert!(is_safe((10, 0)) && is_safe((8, 1)) && !is_safe((7, 2)));
    }

    #[test]
    fn what_the_emulator_does_not_know_is_not_left_out() {
        let old = "Recognized CPUID flags:\n  3dnow erms fsrm\n  mmx monitor movbe\n";
        assert_eq!(processor(old), "max,-monitor,-erms,-fsrm");
        assert_eq!(processor("  fsrm fsrs  fzrm"), "max,-fsrm,-fsrs");
        assert_eq!(processor(""), "max");
    }

    #[test]
    fn the_suite_follows_the_release() {
        let release = "PRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(backports(release).unwrap(), "bookworm-backports");
        assert!(backports("ID=other\nVERSION_CODENAME=x\n").is_err());
        assert!(backports("").is_err());
    }

    #[test]
    fn options_follow_the_file() {
        let turns = Turns {
            file: "/tmp/a,b/turns.so".into(),
        };
        assert_eq!(
            turns.argument(Duration::from_micros(50), 4),
            "file=/tmp/a,,b/turns.so,turn_ns=50000,lanes=4"
        );
    }

    #[test]
    fn what_is_no_qemu_cannot_load_it() {
        let folder = tempfile::tempdir().unwrap();
        let turns = Turns::write(folder.path()).unwrap();
        assert!(!turns.loads_into(Path::new("/bin/false")));
        assert!(!turns.loads_into(Path::new("/no/such/program")));
    }
}
