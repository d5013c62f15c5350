//! `scripts/install`: what it installs can be used, and goes again.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs it with the program and the libraries that were built with this test.
fn install(what: &Path, to: &Path) {
    let mut command = Command::new("scripts/install");
    command.current_dir(ROOT).arg(what).arg(to).arg("/usr");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
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
    assert!(usr.join("share/man/man1/sidelane.1").is_file());
    for unit in ["sidelane.service", "sidelane-control.service"] {
        let unit = fs::read_to_string(usr.join("lib/systemd/system").join(unit)).unwrap();
        assert!(unit.contains("=/usr/bin/sidelane") && !unit.contains("@bindir@"));
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
    let left = files(&usr);
    assert!(left.is_empty(), "{left:?}");
}
