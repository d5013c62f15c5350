//! The distribution's packages, through apt with folders of its own: the machine's sources, lists
//! and packages stay as they are. The mirror, proxies and keys come from the machine's
//! configuration of apt.

use crate::error::{During, Error, Interrupt, Result};
use crate::host;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Keys of the Debian archive, where the package `debian-archive-keyring` puts them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A variable that names the mirror (its URI), where apt's configuration names none.
pub const MIRROR_VARIABLE: &str = "SIDELANE_DEBIAN_MIRROR";

/// The fields asked of `apt-get indextargets`, in order.
const FIELDS: &str = "$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)|$(SIGNED_BY)";

/// Somewhere to fetch from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    uri: String,
    signed_by: Option<String>,
}

/// apt, working in a folder of its own.
pub struct Apt<'a> {
    folder: PathBuf,
    interrupt: &'a Interrupt,
}

impl<'a> Apt<'a> {
    /// Works in `folder`, which is created; one user at a time.
    pub fn new(folder: PathBuf, interrupt: &'a Interrupt) -> Result<Self> {
        for name in ["lists/partial", "cache/archives/partial"] {
            let path = folder.join(name);
            fs::create_dir_all(&path).during(|| format!("create {}", path.display()))?;
        }
        Ok(Apt { folder, interrupt })
    }

    /// Reads what the suite offers now, from the first mirror that has it. Needs the network.
    pub fn update(&self, suite: &str) -> Result<()> {
        let mut last = Error::Kernel(format!(
            "apt's configuration names no Debian mirror; set {MIRROR_VARIABLE} to one's URI or give \
             --kernel PATH"
        ));
        for mirror in mirrors()? {
            let keyring = Some(KEYRING.to_string()).filter(|path| Path::new(path).exists());
            self.write("sources.list", &source_line(&mirror, keyring, suite))?;
            self.write("status", "")?;
            self.write("apt.conf", &configuration(&self.folder))?;
            match self.run("apt-get", &["-q", "update"], &self.folder) {
                Ok(_) => return Ok(()),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The names of the suite's packages that begin so.
    pub fn packages(&self, prefix: &str) -> Result<BTreeSet<String>> {
        let names = self.run("apt-cache", &["pkgnames", prefix], &self.folder)?;
        Ok(names.lines().map(str::to_string).collect())
    }

    /// Fetches a package into a folder and checks it against the signed index.
    pub fn download(&self, package: &str, into: &Path) -> Result<PathBuf> {
        fs::create_dir_all(into).during(|| format!("create {}", into.display()))?;
        self.run("apt-get", &["-q", "download", package], into)?;
        let files = fs::read_dir(into).during(|| format!("read {}", into.display()))?;
        files
            .flatten()
            .map(|entry| entry.path())
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
            })
            .ok_or_else(|| Error::Kernel(format!("apt-get downloaded no {package}")))
    }

    /// Unpacks a package into a folder.
    pub fn unpack(&self, package: &Path, into: &Path) -> Result<()> {
        let program = host::program("dpkg-deb", "dpkg")?;
        let mut command = Command::new(program);
        command.arg("-x").arg(package).arg(into);
        run(command, self.interrupt).map(|_| ())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).during(|| format!("write {}", path.display()))
    }

    fn run(&self, program: &'static str, args: &[&str], folder: &Path) -> Result<String> {
        let mut command = Command::new(host::program(program, "apt")?);
        command
            .arg("-c")
            .arg(self.folder.join("apt.conf"))
            .args(args)
            .current_dir(folder);
        run(command, self.interrupt)
    }
}

/// The mirrors of Debian that this machine's apt is configured for, the likeliest first.
fn mirrors() -> Result<Vec<Mirror>> {
    if let Some(uri) = std::env::var(MIRROR_VARIABLE)
        .ok()
        .filter(|uri| !uri.is_empty())
    {
        return Ok(vec![Mirror {
            uri,
            signed_by: None,
        }]);
    }
    let output = Command::new(host::program("apt-get", "apt")?)
        .args(["indextargets", "--format", FIELDS, "Identifier: Packages"])
        .output()
        .during(|| "run apt-get indextargets".into())?;
    Ok(parse_targets(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads lines of [`FIELDS`]. What apt does not know it leaves as `$(NAME)`: the origin, before the
/// first update.
fn parse_targets(text: &str) -> Vec<Mirror> {
    let mut ranked = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line
            .split('|')
            .map(|f| if f.starts_with("$(") { "" } else { f })
            .collect();
        let [origin, release, component, uri, signed_by] = fields[..] else {
            continue;
        };
        let usable = !uri.is_empty() && !uri.starts_with("cdrom:") && component == "main";
        // The security archive has no backports; a foreign one says so where it can.
        if !usable || release.contains("security") || !(origin.is_empty() || origin == "Debian") {
            continue;
        }
        let named = uri.trim_end_matches('/').ends_with("/debian");
        let rank = (origin != "Debian", !named);
        let signed_by = Some(signed_by.to_string()).filter(|s| !s.is_empty());
        let mirror = Mirror {
            uri: uri.to_string(),
            signed_by,
        };
        if !ranked
            .iter()
            .any(|(_, known): &(_, Mirror)| known.uri == mirror.uri)
        {
            ranked.push((rank, mirror));
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, mirror)| mirror).collect()
}

/// The one source of the isolated apt.
fn source_line(mirror: &Mirror, keyring: Option<String>, suite: &str) -> String {
    let signed_by = keyring.or_else(|| mirror.signed_by.clone());
    let signed = signed_by
        .map(|keys| format!(" signed-by={keys}"))
        .unwrap_or_default();
    format!("deb [arch=amd64{signed}] {} {suite} main\n", mirror.uri)
}

/// Read after the machine's own configuration, whose proxies thus hold.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "Dir::Etc::SourceList \"{folder}/sources.list\";\n\
         Dir::Etc::SourceParts \"-\";\n\
         Dir::Etc::Preferences \"-\";\n\
         Dir::Etc::PreferencesParts \"-\";\n\
         Dir::State::Lists \"{folder}/lists\";\n\
         Dir::State::status \"{folder}/status\";\n\
         Dir::Cache \"{folder}/cache\";\n\
         Dir::Log \"{folder}\";\n\
         APT::Architecture \"amd64\";\n\
         #clear APT::Architectures;\n\
         APT::Architectures:: \"amd64\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"2\";\n\
         // The folder lies in a home, where apt's own user may not go.\n\
         APT::Sandbox::User \"\";\n\
         // The machine's hooks are about the machine's packages.\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n\
         #clear DPkg::Post-Invoke;\n\
         // A source that cannot be read is an error, not a warning.\n\
         APT::Update::Error-Mode \"any\";\n"
    )
}

/// Runs to the end, or kills it when interrupted; gives its output.
fn run(mut command: Command, interrupt: &Interrupt) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let temporary = || tempfile::tempfile().during(|| "create a temporary file".into());
    let (mut out, mut err) = (temporary()?, temporary()?);
    let share = |file: &File| file.try_clone().during(|| "share a temporary file".into());
    command
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
        .stdin(Stdio::null())
        .stdout(share(&out)?)
        .stderr(share(&err)?);
    // Ctrl-C on the terminal is for this process, which then ends the child.
    command.process_group(0);
    let end_with_parent = || Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?);
    // SAFETY: prctl is async-signal-safe. The thread that starts the child waits for it below.
    unsafe { command.pre_exec(end_with_parent) };
    let mut child = command.spawn().during(|| format!("start {name}"))?;
    let status = loop {
        if let Some(status) = child.try_wait().during(|| format!("wait for {name}"))? {
            break status;
        }
        if interrupt.raised() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() {
        return Ok(text(&mut out));
    }
    let said = text(&mut err);
    let said: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    Err(Error::Kernel(format!("{name} failed: {}", said.join("; "))))
}

fn text(file: &mut File) -> String {
    use std::io::Seek;
    let mut bytes = Vec::new();
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as apt 2.6 prints them, of a machine with several sources.
    const KNOWN: &str = "\
Debian|bookworm-security|main|http://sec.example/debian-security/|/k.gpg
Debian|bookworm|main|http://mirror.example/debian/|$(SIGNED_BY)
Debian|bookworm|contrib|http://contrib.example/debian/|$(SIGNED_BY)
Debian|bookworm-updates|main|http://mirror.example/debian/|$(SIGNED_BY)
Docker|bookworm|main|http://docker.example/linux/debian/|/d.gpg
|bookworm|main|cdrom:[Debian]/|
";

    #[test]
    fn the_debian_mirror_is_found_among_the_sources() {
        let found = parse_targets(KNOWN);
        let want = Mirror {
            uri: "http://mirror.example/debian/".into(),
            signed_by: None,
        };
        assert_eq!(found, [want]);
    }

    #[test]
    fn before_the_first_update_the_likeliest_comes_first() {
        let fresh = "$(ORIGIN)|nodistro|main|https://third.example/node/|/n.gpg\n\
                     $(ORIGIN)|bookworm|main|http://a.example/debian/|/k.gpg\n\
                     nonsense\n";
        let found = parse_targets(fresh);
        assert_eq!(found[0].uri, "http://a.example/debian/");
        assert_eq!(found[0].signed_by.as_deref(), Some("/k.gpg"));
        assert_eq!(found.len(), 2);
        assert!(parse_targets("").is_empty());
    }

    #[test]
    fn the_source_names_the_suite_and_its_keys() {
        let mirror = Mirror {
            uri: "http://a.example/debian/".into(),
            signed_by: Some("/k".into()),
        };
        assert_eq!(
            source_line(&mirror, Some("/archive.gpg".into()), "testing"),
            "deb [arch=amd64 signed-by=/archive.gpg] http://a.example/debian/ testing main\n"
        );
        assert!(source_line(&mirror, None, "x").contains("signed-by=/k]"));
    }

    #[test]
    fn every_folder_that_apt_writes_to_is_its_own() {
        let text = configuration(Path::new("/cache/apt"));
        let folder = |name: &str| {
            let line = text
                .lines()
                .find(|l| l.starts_with(name))
                .unwrap_or_default();
            line.contains("\"/cache/apt")
        };
        for name in [
            "Dir::Etc::SourceList",
            "Dir::State::Lists",
            "Dir::State::status",
            "Dir::Cache",
            "Dir::Log",
        ] {
            assert!(folder(name), "{name} in\n{text}");
        }
        assert!(text.contains("Dir::Etc::SourceParts \"-\""));
        assert!(text.contains("#clear APT::Update::Post-Invoke;"));
    }
}
