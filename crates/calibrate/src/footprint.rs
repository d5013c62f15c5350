//! How much memory the kernels take on this machine.

use super::kernels::Footprint;
use sidelane_topology::Topology;
use std::fs;
use std::path::Path;

const MIB: usize = 1 << 20;

/// Where the machine does not tell its last-level cache.
const CACHE_UNKNOWN: usize = 8 * MIB;

/// Bounds of pointer chasing: beyond the inner caches, and quickly filled.
const CHASE: (usize, usize) = (4 * MIB, 64 * MIB);

/// Bounds of streaming.
const STREAM: (usize, usize) = (32 * MIB, 512 * MIB);

/// The kernels together take at most this part of the memory that is available.
const MEMORY_PART: usize = 4;

/// Pointer chasing takes the share of the last-level cache that falls to a core; streaming takes
/// twice the whole cache, so that it stays in none. Both within bounds and within the memory that
/// is available for `lanes` lanes.
pub(super) fn choose(root: &Path, topology: &Topology, cpu: u32, lanes: usize) -> Footprint {
    let cache = last_level_bytes(root, cpu).unwrap_or(CACHE_UNKNOWN);
    let cores = topology
        .core_of(cpu)
        .and_then(|core| topology.caches().get(core.cache))
        .map_or(1, |cache| cache.cores.len().max(1));
    let available = available_bytes(root).unwrap_or(64 * STREAM.0);
    let most = available / MEMORY_PART / lanes.max(1);
    Footprint {
        chase_bytes: (cache / cores).clamp(CHASE.0, CHASE.1).min(most),
        stream_bytes: (2 * cache).clamp(STREAM.0, STREAM.1).min(most),
    }
}

/// The size of a CPU's outermost cache.
fn last_level_bytes(root: &Path, cpu: u32) -> Option<usize> {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    let caches = fs::read_dir(folder).ok()?.flatten();
    let read = |path: &Path| -> Option<(u32, usize)> {
        let level = fs::read_to_string(path.join("level")).ok()?;
        let size = fs::read_to_string(path.join("size")).ok()?;
        Some((level.trim().parse().ok()?, size_bytes(size.trim())?))
    };
    let sizes = caches.filter_map(|entry| read(&entry.path()));
    sizes.max().map(|(_, size)| size)
}

/// Reads `32768K`.
fn size_bytes(text: &str) -> Option<usize> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

fn available_bytes(root: &Path) -> Option<usize> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn caches_and_memory_set_the_sizes() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let cores = (0..4).map(|n| CoreSpec::new([2 * n, 2 * n + 1]).cache(3, 0));
        let machine = cores.fold(Builder::new(), Builder::core).build().unwrap();
        let choose = || choose(root.path(), &machine, 0, 2);
        assert_eq!(choose().chase_bytes, 4 * MIB); // tells nothing: the least
        for (index, level, size) in [(0, "1\n", "48K\n"), (3, "3\n", "98304K\n")] {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(&format!("{folder}/level"), level);
            write(&format!("{folder}/size"), size);
        }
        write(
            "proc/meminfo",
            "MemTotal: 9 kB\nMemAvailable:   16777216 kB\n",
        );
        assert_eq!(
            (choose().chase_bytes, choose().stream_bytes),
            (24 * MIB, 192 * MIB)
        );
        write("proc/meminfo", "MemAvailable:   819200 kB\n");
        assert_eq!(
            (choose().chase_bytes, choose().stream_bytes),
            (24 * MIB, 100 * MIB)
        );
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size_bytes("32K"), Some(32_768));
        assert_eq!(size_bytes("260M"), Some(260 * MIB));
        assert_eq!((size_bytes("x"), size_bytes("3T")), (None, None));
    }
}
