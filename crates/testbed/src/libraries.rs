//! Which shared libraries a program needs: asked of its own dynamic loader.

use crate::error::{During, Error, Result};
use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The loader and libraries that `program` needs, by the absolute paths under which it finds them.
/// Empty for a static program and for a file that is no program. Only the loader is run
/// (`--list`), never the program. Fails when a library is missing.
pub fn needed_by(program: &Path, bytes: &[u8]) -> Result<Vec<PathBuf>> {
    let Some(loader) = interpreter(bytes) else {
        return Ok(Vec::new());
    };
    let loader = PathBuf::from(loader);
    let output = Command::new(&loader)
        .arg("--list")
        .arg(program)
        .output()
        .during(|| {
            format!(
                "run the dynamic loader {} on {}",
                loader.display(),
                program.display()
            )
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(Error::BadSpec(format!(
            "the dynamic loader cannot list the libraries of {}: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let mut found = parse_list(&text).map_err(|name| {
        Error::BadSpec(format!(
            "{} needs the library {name}, which is not on this machine",
            program.display()
        ))
    })?;
    found.push(loader);
    Ok(found)
}

/// The paths in a loader's listing; `Err` names a library that was not found.
fn parse_list(text: &str) -> std::result::Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = match line.split_once(" => ") {
            Some((name, place)) => (name, place),
            None => (line, line),
        };
        if place.starts_with("not found") {
            return Err(name.to_string());
        }
        // What has no path (the kernel's vdso) is no file.
        if let Some(path) = place.split(" (").next().filter(|p| p.starts_with('/')) {
            paths.push(PathBuf::from(path));
        }
    }
    Ok(paths)
}

/// The dynamic loader that a program names.
fn interpreter(bytes: &[u8]) -> Option<String> {
    let file = object::File::parse(bytes).ok()?;
    let name = file.section_by_name(".interp")?.data().ok()?;
    String::from_utf8(name.strip_suffix(b"\0").unwrap_or(name).to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f00)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f11)\n";
        assert_eq!(
            parse_list(text).unwrap(),
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libz.so.1"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert_eq!(
            parse_list("\tstatically linked\n").unwrap(),
            Vec::<PathBuf>::new()
        );
        assert_eq!(
            parse_list("\tlibq.so.7 => not found\n").unwrap_err(),
            "libq.so.7"
        );
    }

    #[test]
    fn this_test_needs_libc_and_its_loader() {
        let me = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&me).unwrap();
        let libraries = needed_by(&me, &bytes).unwrap();
        assert!(
            libraries
                .iter()
                .any(|p| p.to_string_lossy().contains("/libc.so"))
        );
        assert!(
            libraries
                .iter()
                .any(|p| p.to_string_lossy().contains("/ld-linux"))
        );
        assert!(libraries.iter().all(|p| p.exists()));
    }

    #[test]
    fn what_is_no_program_needs_nothing() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01", &[0x7f; 80]] {
            assert_eq!(interpreter(bytes), None);
        }
    }
}
