//! `scripts/install`: what it installs can be used, and goes again; the units are what systemd takes for safe.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

const UNITS: [&str; 3] = [
    "sidelane.service",
    "sidelane-control.service",
    "sidelane-export.service",
];

/// Runs it with the program and the libraries that were built with this test; what it says.
fn install(what: &Path, to: &Path) -> String {
    let mut command = Command::new("scripts/install");
    command.current_dir(ROOT).arg(what).arg(to).arg("/usr");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with the program and the libraries, as a release build leaves it.
fn built() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(
        env!("CARGO_BIN_EXE_sidelane"),
        folder.path().join("sidelane"),
    )
    .unwrap();
    for library in ["libsidelane_runtime.a", "libsidelane_runtime.so"] {
        let file = std::env::current_exe().unwrap().with_file_name(library);
        symlink(file, folder.path().join(library)).unwrap();
    }
    folder
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// The words that pkg-config prints for a program that is linked with the library.
fn flags(root: &Path) -> Vec<String> {
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "sidelane-runtime"])
        .env("PKG_CONFIG_LIBDIR", root.join("usr/lib/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", root)
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = String::from_utf8(output.stdout).unwrap();
    words.split_whitespace().map(String::from).collect()
}

#[test]
fn a_program_finds_the_installed_library_and_all_goes_again() {
    let (built, to) = (built(), tempfile::tempdir().unwrap());
    install(&built.path().join("sidelane"), to.path());
    let usr = to.path().join("usr");
    for file in [
        "share/man/man1/sidelane.1",
        "share/man/man5/sidelane.toml.5",
        "share/bash-completion/completions/sidelane",
        "share/zsh/site-functions/_sidelane",
        "share/fish/vendor_completions.d/sidelane.fish",
        "share/sidelane/schema.json",
        "share/sidelane-runtime/sidelane_jobs.py",
    ] {
        assert!(fs::metadata(usr.join(file)).unwrap().len() > 0, "{file}");
    }
    assert!(usr.join("share/sidelane/grafana.json").is_file());
    for unit in UNITS {
        let unit = fs::read_to_string(usr.join("lib/systemd/system").join(unit)).unwrap();
        assert!(unit.contains("=/usr/bin/sidelane") && !unit.contains("@bindir@"));
    }
    let unit = fs::read_to_string(usr.join("lib/systemd/system/sidelane.service")).unwrap();
    for line in [
        "Conflicts=scx.service scx_loader.service",
        "StartLimitIntervalSec=1h",
        "StartLimitBurst=3",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }

    let source = to.path().join("probe.c");
    let text = "#include <sidelane.h>\nint main(void) { return sidelane_critical_beside(); }\n";
    fs::write(&source, text).unwrap();
    let probe = to.path().join("probe");
    let mut gcc = Command::new("gcc");
    gcc.arg(&source)
        .args(flags(to.path()))
        .arg("-o")
        .arg(&probe);
    assert!(gcc.status().unwrap().success());
    let needed = Command::new("objdump")
        .arg("-p")
        .arg(&probe)
        .output()
        .unwrap();
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    assert!(needed.contains("libsidelane_runtime.so.0\n"), "{needed}");
    let mut run = Command::new(&probe);
    run.env("LD_LIBRARY_PATH", usr.join("lib"));
    run.env("SIDELANE_SIGNAL_SOCKET", to.path().join("none"));
    assert!(run.status().unwrap().success());

    install(Path::new("--remove"), to.path());
    let left = [files(&usr), files(&to.path().join("etc"))].concat();
    assert!(left.is_empty(), "{left:?}");
    assert!(!usr.join("share/sidelane").exists());
}

/// A gRPC server's method, called as grpcio calls it: its job is due when the client stops to wait.
const PYTHON: &str = "
import time
from sidelane_jobs import Job, marked

class Context:
    def __init__(self, left_s):
        self.time_remaining = lambda: left_s

class Server:
    @marked
    def Call(self, request, context):
        seen.append((request, jobs[-1].time_left_s(), jobs[-1].should_stop()))
        return request + 1

seen, jobs = [], []
begin = Job.__init__
Job.__init__ = lambda self, *given, **named: (begin(self, *given, **named), jobs.append(self))[0]
server = Server()
assert server.Call(1, Context(0.5)) == 2 and Server.Call.__name__ == 'Call'
for none in (None, float('inf')):
    server.Call(2, Context(none))
server.Call(3, Context(0.0))
due, endless, far, late = seen
assert due[0] == 1 and 0 < due[1] <= 0.5 and not due[2], due
assert endless[1] is None and not endless[2], endless
assert far[1] > 1e9, far
assert late[1] == 0 and late[2], late
assert all(0 <= job.took_s < 10 and job.end() == job.took_s for job in jobs), jobs
earlier = Job(0.02, begun_ns=time.monotonic_ns() - 15_000_000)
assert 0 < earlier.time_left_s() <= 0.005 and earlier.should_stop(0.006) and earlier.end() >= 0.015
";

#[test]
fn python_marks_the_jobs_of_a_grpc_server() {
    let library = std::env::current_exe()
        .unwrap()
        .with_file_name("libsidelane_runtime.so");
    let mut python = Command::new("python3");
    python.args(["-B", "-c", PYTHON]);
    python.env("PYTHONPATH", Path::new(ROOT).join("crates/runtime/python"));
    python.env("SIDELANE_RUNTIME_LIBRARY", library);
    python.env("SIDELANE_SIGNAL_SOCKET", "/nonexistent");
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn bash_completes_commands_and_options() {
    let script = r#"source <(SIDELANE completions bash)
        COMP_WORDS=(sidelane run --str) COMP_CWORD=2
        _sidelane sidelane --str run && echo "${COMPREPLY[@]}"
        COMP_WORDS=(sidelane top) COMP_CWORD=1
        _sidelane sidelane top sidelane && echo "${COMPREPLY[@]}""#;
    let script = script.replace("SIDELANE", env!("CARGO_BIN_EXE_sidelane"));
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "--strict\ntop topology\n", "{output:?}");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let output = super::sidelane(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains("calibrate"),
            "{shell}"
        );
        assert!(
            !text.contains("guest-init"),
            "{shell}: hidden commands are hidden"
        );
    }
}

/// The text that a person would see of a page; without groff, nothing.
fn shown(page: &Path) -> Option<String> {
    let groff = Command::new("groff")
        .args(["-k", "-man", "-Tutf8", "-P-cbou", "-ww", "-rLL=100n"])
        .arg(page)
        .output();
    let output = groff.ok()?;
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warnings.is_empty(), "{warnings}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn manual_pages_show_what_help_says() {
    let folder = tempfile::tempdir().unwrap();
    let output = super::sidelane(&["man", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let pages = files(folder.path());
    assert!(pages.len() > 25, "{pages:?}");
    for page in &pages {
        let source = fs::read_to_string(page).unwrap();
        assert!(source.starts_with(".TH \"SIDELANE"), "{source}");
        assert!(
            source.lines().all(|line| line == line.trim_end()),
            "{page:?}"
        );
    }
    let Some(text) = shown(&folder.path().join("sidelane-run.1")) else {
        return;
    };
    let help = super::sidelane(&["run", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    for example in examples.take_while(|line| line.starts_with("  ")) {
        assert!(text.contains(&format!("{example}\n")), "{example}\n{text}");
    }
    pages.iter().for_each(|page| drop(shown(page)));
}

#[test]
fn the_configuration_that_the_unit_names_is_there_and_a_changed_one_stays() {
    let (built, to) = (built(), tempfile::tempdir().unwrap());
    let program = built.path().join("sidelane");
    install(&program, to.path());
    let unit = to.path().join("usr/lib/systemd/system/sidelane.service");
    let unit = fs::read_to_string(unit).unwrap();
    assert!(unit.contains("--config /etc/sidelane.toml"), "{unit}");
    let config = to.path().join("etc/sidelane.toml");
    let mut check = Command::new(&program);
    check.args(["run", "--check", "--config"]).arg(&config);
    assert!(check.output().unwrap().status.success());

    fs::write(&config, "# mine\n").unwrap();
    install(&program, to.path());
    let said = install(Path::new("--remove"), to.path());
    assert!(
        said.contains("kept") && said.contains("sidelane.toml"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\n");
}

/// What `systemd-analyze` says of the installed units; none where it is missing, or too old to do that offline.
fn analyze(root: &Path, args: &[&str]) -> Option<(bool, String)> {
    let units = root.join("usr/lib/systemd/system");
    let mut command = Command::new("systemd-analyze");
    command.args(args).args(UNITS.map(|unit| units.join(unit)));
    let Ok(output) = command.output() else {
        println!("skipped: there is no systemd-analyze");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.contains("unrecognized option") {
        println!("skipped: this systemd-analyze cannot do {args:?}");
        return None;
    }
    Some((output.status.success(), said))
}

#[test]
fn systemd_finds_no_mistake_in_the_units_and_little_exposure() {
    let (built, to) = (built(), tempfile::tempdir().unwrap());
    install(&built.path().join("sidelane"), to.path());
    // the program has to be where the unit says
    let units = to.path().join("usr/lib/systemd/system");
    for unit in UNITS {
        let file = units.join(unit);
        let text = fs::read_to_string(&file).unwrap();
        let program = to.path().join("usr/bin/sidelane");
        fs::write(
            &file,
            text.replace("/usr/bin/sidelane", program.to_str().unwrap()),
        )
        .unwrap();
    }
    if let Some((well, said)) = analyze(to.path(), &["verify", "--man=no"]) {
        let about_ours: Vec<_> = (said.lines())
            .filter(|line| UNITS.iter().any(|unit| line.contains(unit)))
            .collect();
        assert!(well && about_ours.is_empty(), "{said}");
    }
    // tenths; it was 96 for the scheduler
    if let Some((well, said)) = analyze(
        to.path(),
        &["security", "--offline=true", "--threshold=30", "--no-pager"],
    ) {
        assert!(well, "{said}");
    }
}

/// The help of a command and of all below it, at so many columns.
fn helps(path: &[&str], columns: &str, take: &mut dyn FnMut(&str, &str)) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    let command = command.args(path).arg("--help").env("COLUMNS", columns);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    take(&path.join(" "), &text);
    let commands = text.split_once("\nCommands:\n").map(|(_, rest)| rest);
    let commands = commands.and_then(|rest| rest.split("\n\n").next());
    for line in commands.unwrap_or_default().lines() {
        let name = line
            .strip_prefix("  ")
            .filter(|line| !line.starts_with(' '));
        match name.and_then(|line| line.split(' ').next()) {
            Some("help") | None => {}
            Some(name) => helps(&[path, &[name]].concat(), columns, take),
        }
    }
}

#[test]
fn help_is_wrapped_once() {
    for columns in [80, 100] {
        let mut seen = 0;
        helps(&[], &columns.to_string(), &mut |path, text| {
            seen += 1;
            let lines: Vec<&str> = text.lines().collect();
            let prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for pair in lines
                .windows(2)
                .filter(|pair| pair.iter().all(|line| prose(line)))
            {
                // the next word had no room, or the source breaks the line where clap does not
                let word = pair[1].split(' ').next().unwrap();
                let wanted = pair[0].chars().count() + 1 + word.chars().count();
                assert!(wanted > columns, "{path} at {columns} columns: {pair:#?}");
            }
        });
        assert!(seen > 20, "{seen} commands");
    }
}

#[test]
fn each_help_has_an_example() {
    helps(&[], "100", &mut |path, text| {
        // another program's, which need not be here
        let well = path == "node" || text.contains("\nExample");
        assert!(well, "{path}: {text}");
    });
}

#[test]
fn manual_pages_go_into_folders_that_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let [commands, files] = ["a/man1", "a/man5"].map(|name| folder.path().join(name));
    let [commands, files] = [&commands, &files].map(|path| path.to_str().unwrap());
    let output = super::sidelane(&["man", commands, "--configuration", files]);
    assert!(output.status.success(), "{}", super::stderr(&output));
    assert!(Path::new(commands).join("sidelane.1").exists());
    assert!(Path::new(files).join("sidelane.toml.5").exists());
}
