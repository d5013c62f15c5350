//! Writes a `newc` cpio archive, the format of the kernel's initial root file system.
//!
//! Parent folders come by themselves. A host has `/bin`, `/sbin` and `/lib*` either as folders or
//! as links into `/usr`; in the archive they are always links, so that a file named by either path
//! is found.

use std::collections::BTreeMap;

const FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
const DEVICE: u32 = 0o020_000;

/// The folders that are links into `/usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// An archive under construction: paths without the leading slash, in order.
#[derive(Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    mode: u32,
    device: (u32, u32),
    data: Vec<u8>,
}

impl Archive {
    /// An archive that has nothing but the links of merged folders.
    pub fn new() -> Self {
        let mut archive = Archive::default();
        for name in MERGED {
            archive.folder(&format!("/usr/{name}"), 0o755);
            archive.put(
                name.to_string(),
                LINK | 0o777,
                format!("usr/{name}").into_bytes(),
            );
        }
        archive
    }

    /// Adds a regular file; `mode` is its permission bits. Replaces what was there.
    pub fn file(&mut self, path: &str, mode: u32, data: Vec<u8>) {
        let path = canonical(path);
        self.parents(&path);
        self.put(path, FILE | mode, data);
    }

    /// Adds a symbolic link. Replaces what was there.
    pub fn link(&mut self, path: &str, target: &str) {
        let path = canonical(path);
        self.parents(&path);
        self.put(path, LINK | 0o777, target.as_bytes().to_vec());
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        let path = canonical(path);
        self.parents(&path);
        self.put(path.clone(), DEVICE | mode, Vec::new());
        if let Some(entry) = self.entries.get_mut(&path) {
            entry.device = (major, minor);
        }
    }

    /// Adds a folder and its parents.
    pub fn folder(&mut self, path: &str, mode: u32) {
        let path = canonical(path);
        self.parents(&path);
        self.put(path, FOLDER | mode, Vec::new());
    }

    /// Is there something at this path?
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(&canonical(path))
    }

    fn parents(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            if !self.entries.contains_key(parent) {
                self.put(parent.to_string(), FOLDER | 0o755, Vec::new());
            }
        }
    }

    fn put(&mut self, path: String, mode: u32, data: Vec<u8>) {
        let device = (0, 0);
        self.entries.insert(path, Entry { mode, device, data });
    }

    /// The archive's bytes.
    pub fn finish(self) -> Vec<u8> {
        let size: usize = self.entries.values().map(|e| e.data.len() + 256).sum();
        let mut out = Vec::with_capacity(size);
        for (number, (path, entry)) in self.entries.iter().enumerate() {
            // Sorted order puts a folder before what it holds, as the kernel needs.
            write(&mut out, number as u32 + 1, path, entry);
        }
        let trailer = Entry {
            mode: 0,
            device: (0, 0),
            data: Vec::new(),
        };
        write(&mut out, 0, "TRAILER!!!", &trailer);
        out
    }
}

/// Without the leading slash, and through the merged folders.
fn canonical(path: &str) -> String {
    let path = path.trim_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    if MERGED.contains(&first) {
        format!("usr/{path}")
    } else {
        path.to_string()
    }
}

fn write(out: &mut Vec<u8>, number: u32, path: &str, entry: &Entry) {
    out.extend(b"070701");
    let links = if entry.mode & FOLDER != 0 { 2 } else { 1 };
    let fields = [
        number,
        entry.mode,
        0, // owner: root
        0, // group: root
        links,
        0, // time of change
        entry.data.len() as u32,
        0,
        0, // the device that the file lies on
        entry.device.0,
        entry.device.1,
        path.len() as u32 + 1,
        0, // checksum: not in this format
    ];
    for field in fields {
        out.extend(format!("{field:08x}").as_bytes());
    }
    out.extend(path.as_bytes());
    out.push(0);
    pad(out);
    out.extend(&entry.data);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::new();
        archive.file("/init", 0o755, b"#!/bin/sh\n".to_vec());
        archive.file("/lib/x86_64-linux-gnu/libx.so.1", 0o644, b"elf".to_vec());
        archive.link("/bin/sh", "busybox");
        archive.device("/dev/console", 0o600, 5, 1);
        archive.folder("/tmp", 0o1777);
        archive.finish()
    }

    /// Lists an archive as an independent reader sees it.
    fn listing(bytes: &[u8]) -> String {
        let mut cpio = Command::new("busybox")
            .args(["cpio", "-tv"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(bytes).unwrap();
        String::from_utf8(cpio.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn another_reader_sees_the_files_links_and_devices() {
        let text = listing(&sample());
        let line = |end: &str| {
            text.lines()
                .find(|l| l.ends_with(end))
                .unwrap_or_else(|| panic!("no {end} in:\n{text}"))
                .to_string()
        };
        assert!(line(" init").starts_with("-rwxr-xr-x"));
        assert!(line(" usr/lib/x86_64-linux-gnu/libx.so.1").contains(" 3 "));
        assert!(line(" usr/bin/sh -> busybox").starts_with('l'));
        assert!(line(" bin -> usr/bin").starts_with('l'));
        assert!(line(" dev/console").starts_with("crw-------"));
        assert!(line(" tmp").starts_with("drwxrwxrwt"));
        assert!(!text.lines().any(|l| l.ends_with(" lib/x86_64-linux-gnu")));
    }

    #[test]
    fn folders_come_before_what_they_hold_and_a_later_file_replaces() {
        let mut archive = Archive::new();
        archive.file("/a/b/c", 0o644, b"1".to_vec());
        archive.file("/a/b/c", 0o600, b"22".to_vec());
        assert!(archive.has("/a/b") && archive.has("a/b/c") && !archive.has("/a/d"));
        let names: Vec<String> = listing(&archive.finish())
            .lines()
            .map(|l| l.rsplit(' ').next().unwrap().to_string())
            .collect();
        let at = |n: &str| names.iter().position(|x| x == n).unwrap();
        assert!(at("a") < at("a/b") && at("a/b") < at("a/b/c"));
        assert_eq!(names.iter().filter(|n| *n == "a/b/c").count(), 1);
    }
}
