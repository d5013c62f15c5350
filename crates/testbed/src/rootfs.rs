//! Puts the guest's root file system together: busybox, `sidelane`, what was added, and their
//! libraries.

use crate::cpio::Archive;
use crate::error::{During, Error, Result};
use crate::host;
use crate::kernel::{Image, modules};
use crate::libraries;
use crate::spec::Spec;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Where the modules to load at boot are listed, one path a line, in order.
pub const MODULES: &str = "/etc/sidelane-modules";

/// Folders that stay empty in the archive.
const FOLDERS: [(&str, u32); 10] = [
    ("/proc", 0o555),
    ("/sys", 0o555),
    ("/dev", 0o755),
    ("/tmp", 0o1777),
    ("/run", 0o755),
    ("/root", 0o700),
    ("/etc", 0o755),
    ("/var/tmp", 0o1777),
    ("/var/lib", 0o755),
    ("/boot", 0o755),
];

const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1\tlocalhost testbed\n::1\tlocalhost\n";

/// The shell turns the kernel's leftover arguments away from `sidelane`.
const INIT: &str = "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=linux\n\
                    exec /usr/bin/sidelane testbed guest-init\n";

/// The archive for this machine and kernel.
pub fn build(spec: &Spec, kernel: &Image) -> Result<Vec<u8>> {
    let mut archive = Archive::new();
    for (path, mode) in FOLDERS {
        archive.folder(path, mode);
    }
    // The kernel opens the console for the first process before /dev is mounted.
    archive.device("/dev/console", 0o600, 5, 1);
    archive.device("/dev/null", 0o666, 1, 3);
    archive.file("/init", 0o755, INIT.as_bytes().to_vec());
    archive.file("/etc/passwd", 0o644, PASSWD.as_bytes().to_vec());
    archive.file("/etc/group", 0o644, GROUP.as_bytes().to_vec());
    archive.file("/etc/hosts", 0o644, HOSTS.as_bytes().to_vec());
    add_busybox(&mut archive)?;
    add_program(&mut archive, &spec.sidelane, "/usr/bin/sidelane")?;
    add_loader_cache(&mut archive);
    for path in &spec.add {
        let path = std::path::absolute(path).during(|| format!("find {}", path.display()))?;
        add_path(&mut archive, &path)?;
    }
    add_kernel_files(&mut archive, spec, kernel)?;
    Ok(archive.finish())
}

/// busybox with a link for each of its applets.
fn add_busybox(archive: &mut Archive) -> Result<()> {
    let busybox = host::program("busybox", "busybox-static")?;
    let output = Command::new(&busybox)
        .arg("--list-full")
        .output()
        .during(|| format!("run {}", busybox.display()))?;
    add_program(archive, &busybox, "/usr/bin/busybox")?;
    for applet in String::from_utf8_lossy(&output.stdout).lines() {
        let path = format!("/{}", applet.trim_start_matches('/'));
        if !archive.has(&path) {
            archive.link(&path, "/usr/bin/busybox");
        }
    }
    Ok(())
}

/// The loader finds libraries outside its own folders by this file; the paths are the same in the
/// guest.
fn add_loader_cache(archive: &mut Archive) {
    if let Ok(cache) = fs::read("/etc/ld.so.cache") {
        archive.file("/etc/ld.so.cache", 0o644, cache);
    }
}

/// A file or folder under its own path; a program is also linked from where the guest looks for
/// programs.
fn add_path(archive: &mut Archive, path: &Path) -> Result<()> {
    if path.is_dir() {
        return add_folder(archive, path);
    }
    let place = text(path)?;
    add_program(archive, path, &place)?;
    let runnable = fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let link = path
        .file_name()
        .map(|name| Path::new("/usr/bin").join(name));
    let there =
        |link: &Path| link == path || link.strip_prefix("/usr").ok() == path.strip_prefix("/").ok();
    match link.filter(|link| runnable && !there(link)) {
        Some(link) => {
            archive.link(&text(&link)?, &place);
            Ok(())
        }
        None => Ok(()),
    }
}

/// A folder with all that is in it; links stay links.
fn add_folder(archive: &mut Archive, folder: &Path) -> Result<()> {
    let what = || format!("read {}", folder.display());
    archive.folder(&text(folder)?, 0o755);
    for entry in fs::read_dir(folder).during(what)? {
        let path = entry.during(what)?.path();
        let kind = fs::symlink_metadata(&path).during(what)?.file_type();
        if kind.is_symlink() {
            let target = fs::read_link(&path).during(what)?;
            archive.link(&text(&path)?, &text(&target)?);
        } else if kind.is_dir() {
            add_folder(archive, &path)?;
        } else if kind.is_file() {
            add_program(archive, &path, &text(&path)?)?;
        }
    }
    Ok(())
}

/// A file, under the given path, with the libraries that it needs under theirs.
fn add_program(archive: &mut Archive, path: &Path, place: &str) -> Result<()> {
    let bytes = read(path)?;
    for library in libraries::needed_by(path, &bytes)? {
        let place = text(&library)?;
        if !archive.has(&place) {
            archive.file(&place, 0o755, read(&library)?);
        }
    }
    let mode = fs::metadata(path).map_or(0o644, |m| m.permissions().mode() & 0o7777);
    archive.file(place, mode, bytes);
    Ok(())
}

/// The configuration (libbpf reads it) and the modules that are to be loaded.
fn add_kernel_files(archive: &mut Archive, spec: &Spec, kernel: &Image) -> Result<()> {
    if let Some(config) = &kernel.config {
        let bytes = read(config)?;
        archive.file(&format!("/boot/config-{}", kernel.version), 0o644, bytes);
    }
    let mut list = String::new();
    for module in modules::load_order(kernel, &spec.modules)? {
        let path = format!("/lib/modules/{}/{}.ko", kernel.version, module.name);
        archive.file(&path, 0o644, module.code);
        list.push_str(&format!("{path}\n"));
    }
    archive.file(MODULES, 0o644, list.into_bytes());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).during(|| format!("read {}", path.display()))
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_string).ok_or_else(|| {
        Error::BadSpec(format!(
            "{}: a file name in the guest must be valid UTF-8",
            path.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpio::Archive;

    #[test]
    fn a_program_comes_with_its_loader_and_a_link_from_the_search_path() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("tool");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let data = folder.path().join("data");
        fs::write(&data, "x").unwrap();
        let mut archive = Archive::new();
        add_path(&mut archive, &program).unwrap();
        add_path(&mut archive, &data).unwrap();
        assert!(archive.has(&text(&program).unwrap()) && archive.has(&text(&data).unwrap()));
        assert!(archive.has("/usr/bin/tool") && !archive.has("/usr/bin/data"));
        assert!(archive.has("/lib64/ld-linux-x86-64.so.2"));
    }

    #[test]
    fn a_folder_comes_whole_and_a_program_in_its_place_needs_no_link() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/b"), "x").unwrap();
        std::os::unix::fs::symlink("b", folder.path().join("a/c")).unwrap();
        let mut archive = Archive::new();
        add_path(&mut archive, folder.path()).unwrap();
        let inside = |name: &str| archive.has(&format!("{}/{name}", folder.path().display()));
        assert!(inside("a/b") && inside("a/c"));
        let before = archive.has("/usr/bin/sh");
        add_path(&mut archive, Path::new("/bin/sh")).unwrap();
        assert!(!before && archive.has("/usr/bin/sh"));
    }
}
