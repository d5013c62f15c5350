//! CPU bandwidth quotas for the lanes' threads and for whole cores: cgroup version 1 or 2.
//!
//! Where several cores share a host CPU there is a group for each core, with the lanes' groups inside.
//!
//! Version 1: a group for the machine in this process's own group of the `cpu` controller, a group
//! for each lane in it; threads go to `tasks`. Version 2: QEMU moves to a group of its own, in
//! which each lane's group is *threaded*; threads go to `cgroup.threads`. The parent is the nearest
//! group, from this process's own upwards, that hands the `cpu` controller down or can be made to.

pub use crate::threads::LaneThread;

use crate::belongings::Belongings;
use crate::error::{During, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The quota's period, µs: short, so that the pauses are short.
const PERIOD_US: u64 = 5000;

/// The least that the kernel takes as a quota, µs.
const LEAST_US: u64 = 1000;

/// What the lanes of a machine may use of the host's CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Each lane, of what its core has: below 1 for a threadPerf that falls less than by taking turns.
    pub lane: f64,
    /// Each core, of a host CPU: below 1 where several cores share one, so that what one of them does
    /// leaves the others' speed alone.
    pub core: f64,
}

impl Shares {
    /// Is anything to be limited?
    pub fn limit(&self) -> bool {
        self.lane < 1.0 || self.core < 1.0
    }
}

/// The groups of a machine's lanes: where they will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneGroups {
    version: Version,
    /// The machine's group, which is to be created.
    group: PathBuf,
    /// The parent does not hand `cpu` down yet (version 2).
    enable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl LaneGroups {
    /// Finds a place for a group of this name. `root` is the root of the file system (for tests: a
    /// captured tree).
    pub fn find(root: &Path, name: &str) -> Result<LaneGroups> {
        let mounts = read(&root.join("proc/self/mountinfo"))?;
        let groups = read(&root.join("proc/self/cgroup"))?;
        if let Some(own) = version_1(&mounts, &groups) {
            let group = below(root, &own).join(name);
            return Ok(LaneGroups {
                version: Version::One,
                group,
                enable: false,
            });
        }
        let (top, own) = version_2(&mounts, &groups).ok_or_else(|| {
            let advice = "give --thread-perf 1,0.5 (no quota) or mount the cpu controller";
            Error::Unsupported(format!(
                "this machine has no cgroups with the cpu controller: {advice}"
            ))
        })?;
        let (top, own) = (below(root, &top), below(root, &own));
        let has = |group: &Path, file: &str| {
            read(&group.join(file))
                .is_ok_and(|text| text.split_whitespace().any(|word| word == "cpu"))
        };
        let up: Vec<&Path> = own
            .ancestors()
            .take_while(|group| group.starts_with(&top))
            .collect();
        let parent = |enable: bool| {
            let file = if enable {
                "cgroup.controllers"
            } else {
                "cgroup.subtree_control"
            };
            let found = up.iter().find(|group| has(group, file))?;
            Some(LaneGroups {
                version: Version::Two,
                group: found.join(name),
                enable,
            })
        };
        parent(false).or_else(|| parent(true)).ok_or_else(|| {
            Error::Unsupported(format!(
                "the cpu controller of cgroups is not available at {}: run outside the container, or \
                 give \
                 --thread-perf 1,0.5 (no quota)",
                top.display()
            ))
        })
    }

    /// All that [`LaneGroups::apply`] leaves, to be noted before.
    pub fn belongings(&self, lanes: &[LaneThread], shares: Shares, to: &mut Belongings) {
        let mut above: Vec<PathBuf> = Vec::new();
        for (number, lane) in lanes.iter().enumerate() {
            let core = self.above(lane.core, shares);
            to.cgroups.push(core.join(format!("lane{number}")));
            if core != self.group && !above.contains(&core) {
                above.push(core);
            }
        }
        to.cgroups.extend(above);
        to.cgroups.push(self.group.clone());
        if self.enable {
            to.restore.push((self.parent_switch(), "-cpu".into()));
        }
    }

    /// Gives each lane's thread, and each core, its quota. `process` is the one that they belong to.
    pub fn apply(&self, process: u32, lanes: &[LaneThread], shares: Shares) -> Result<()> {
        if self.enable {
            write(&self.parent_switch(), "+cpu")?;
        }
        make(&self.group)?;
        if self.version == Version::Two {
            write(&self.group.join("cgroup.procs"), &process.to_string())?;
        }
        for (number, lane) in lanes.iter().enumerate() {
            let core = self.above(lane.core, shares);
            if core != self.group && !core.exists() {
                self.add(&self.group, &core, shares.core)?;
            }
            let group = core.join(format!("lane{number}"));
            self.add(&core, &group, shares.lane * shares.core)?;
            let threads = match self.version {
                Version::One => "tasks",
                Version::Two => "cgroup.threads",
            };
            write(&group.join(threads), &lane.tid.to_string())?;
        }
        Ok(())
    }

    /// Makes a group inside another, with a quota of `share` of a CPU.
    fn add(&self, above: &Path, group: &Path, share: f64) -> Result<()> {
        make(group)?;
        let (quota_us, period_us) = bandwidth_us(share);
        if self.version == Version::One {
            write(&group.join("cpu.cfs_period_us"), &period_us.to_string())?;
            return write(&group.join("cpu.cfs_quota_us"), &quota_us.to_string());
        }
        write(&group.join("cgroup.type"), "threaded")?;
        // Only a group with threaded ones inside may hand down and have processes.
        write(&above.join("cgroup.subtree_control"), "+cpu")?;
        write(&group.join("cpu.max"), &format!("{quota_us} {period_us}"))
    }

    /// The group in which the lanes of a core are.
    fn above(&self, core: usize, shares: Shares) -> PathBuf {
        match shares.core < 1.0 {
            true => self.group.join(format!("core{core}")),
            false => self.group.clone(),
        }
    }

    fn parent_switch(&self) -> PathBuf {
        self.group.with_file_name("cgroup.subtree_control")
    }
}

/// A share of a CPU as run time and the period it is for, µs. Small shares need a longer period.
fn bandwidth_us(share: f64) -> (u64, u64) {
    let period_us = (LEAST_US as f64 / share).ceil().max(PERIOD_US as f64);
    ((share * period_us).round() as u64, period_us as u64)
}

/// This process's own group of the cpu controller, version 1.
fn version_1(mounts: &str, groups: &str) -> Option<PathBuf> {
    let has_cpu = |list: &str| list.split(',').any(|word| word == "cpu");
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|m| m.kind == "cgroup" && has_cpu(m.options))?;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        has_cpu(fields.next()?).then(|| fields.next())?
    })?;
    Some(mount.place_of(own))
}

/// The top of the version 2 hierarchy that can be seen, and this process's own group.
fn version_2(mounts: &str, groups: &str) -> Option<(PathBuf, PathBuf)> {
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|m| m.kind == "cgroup2")?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some((PathBuf::from(mount.point), mount.place_of(own)))
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// What part of the file system is mounted.
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Mount {
            root: before.next()?,
            point: before.next()?,
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }

    /// Where a group is found; one outside what is mounted counts as the top.
    fn place_of(&self, group: &str) -> PathBuf {
        let inside = Path::new(group)
            .strip_prefix(self.root)
            .unwrap_or(Path::new(""));
        Path::new(self.point).join(inside)
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).during(|| format!("read {}", path.display()))
}

fn make(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(|source| refused("create", path, source))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|source| refused(&format!("write {text} to"), path, source))
}

/// Most who meet this lack the privilege.
fn refused(what: &str, path: &Path, source: std::io::Error) -> Error {
    if matches!(
        source.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EROFS)
    ) {
        return Error::Unsupported(format!(
            "cannot {what} {}: {source}; quotas need privilege: run as root, or give --thread-perf \
             1,0.5 (no quota)",
            path.display()
        ));
    }
    Error::Io {
        what: format!("{what} {}", path.display()),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
24 23 0:21 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
25 24 0:22 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
26 24 0:23 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
27 24 0:24 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const V2_MOUNTS: &str =
        "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n";

    /// A tree with the given files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Lanes with these threads, two to a core.
    fn lanes(tids: &[i32]) -> Vec<LaneThread> {
        let lane = |(index, &tid)| LaneThread {
            tid,
            core: index / 2,
        };
        tids.iter().enumerate().map(lane).collect()
    }

    fn of_lanes(lane: f64) -> Shares {
        Shares { lane, core: 1.0 }
    }

    fn text(root: &Path, path: &str) -> String {
        fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    #[test]
    fn version_1_lies_in_the_own_group_and_moves_threads_alone() {
        let root = tree(&[
            ("proc/self/mountinfo", V1_MOUNTS),
            (
                "proc/self/cgroup",
                "4:cpuset:/other\n3:cpu,cpuacct:/mine\n0::/unified\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/mine/tasks", ""),
        ]);
        let place = LaneGroups::find(root.path(), "bed").unwrap();
        place
            .apply(77, &lanes(&[100, 101]), of_lanes(0.79))
            .unwrap();
        let at = |name: &str| {
            text(
                root.path(),
                &format!("sys/fs/cgroup/cpu,cpuacct/mine/bed/lane1/{name}"),
            )
        };
        assert_eq!(at("cpu.cfs_period_us"), "5000");
        assert_eq!(at("cpu.cfs_quota_us"), "3950");
        assert_eq!(at("tasks"), "101");
        let mut belongings = Belongings::default();
        place.belongings(&lanes(&[100, 101]), of_lanes(0.79), &mut belongings);
        assert_eq!(belongings.cgroups.len(), 3);
        assert!(belongings.cgroups[2].ends_with("mine/bed") && belongings.restore.is_empty());
    }

    #[test]
    fn version_1_inside_a_container_counts_from_what_is_mounted() {
        let mounts = "25 24 0:22 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(
            version_1(mounts, "3:cpu:/docker/abc/x\n").unwrap(),
            Path::new("/sys/fs/cgroup/cpu/x")
        );
        assert_eq!(
            version_1(mounts, "3:cpu:/\n").unwrap(),
            Path::new("/sys/fs/cgroup/cpu")
        );
    }

    #[test]
    fn version_2_takes_the_nearest_parent_that_hands_the_controller_down() {
        let root = tree(&[
            ("proc/self/mountinfo", V2_MOUNTS),
            ("proc/self/cgroup", "0::/user.slice/session.scope\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
            ("sys/fs/cgroup/user.slice/cgroup.subtree_control", "memory"),
            ("sys/fs/cgroup/user.slice/cgroup.controllers", "cpu memory"),
            (
                "sys/fs/cgroup/user.slice/session.scope/cgroup.controllers",
                "memory",
            ),
        ]);
        let place = LaneGroups::find(root.path(), "bed").unwrap();
        place.apply(77, &lanes(&[100, 101]), of_lanes(0.5)).unwrap();
        let at = |name: &str| text(root.path(), &format!("sys/fs/cgroup/bed/{name}"));
        assert_eq!(at("cgroup.procs"), "77");
        assert_eq!(at("cgroup.subtree_control"), "+cpu");
        assert_eq!(at("lane0/cgroup.type"), "threaded");
        assert_eq!(at("lane0/cpu.max"), "2500 5000");
        assert_eq!(at("lane1/cgroup.threads"), "101");
        // The parent was left as it is.
        assert_eq!(
            text(root.path(), "sys/fs/cgroup/cgroup.subtree_control"),
            "cpu memory"
        );
    }

    #[test]
    fn version_2_switches_the_controller_on_where_nobody_did_and_off_afterwards() {
        let root = tree(&[
            ("proc/self/mountinfo", V2_MOUNTS),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", ""),
            ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu"),
        ]);
        let place = LaneGroups::find(root.path(), "bed").unwrap();
        place.apply(77, &lanes(&[100]), of_lanes(0.5)).unwrap();
        let switch = root.path().join("sys/fs/cgroup/cgroup.subtree_control");
        assert_eq!(fs::read_to_string(&switch).unwrap(), "+cpu");
        let mut belongings = Belongings::default();
        place.belongings(&lanes(&[100]), of_lanes(0.5), &mut belongings);
        assert_eq!(belongings.restore, [(switch, "-cpu".to_string())]);
    }

    #[test]
    fn cores_that_share_a_cpu_have_groups_with_their_lanes_inside() {
        let v1 = tree(&[
            ("proc/self/mountinfo", V1_MOUNTS),
            ("proc/self/cgroup", "3:cpu,cpuacct:/\n0::/unified\n"),
            ("sys/fs/cgroup/cpu,cpuacct/tasks", ""),
        ]);
        let v2 = tree(&[
            ("proc/self/mountinfo", V2_MOUNTS),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu"),
        ]);
        let shares = Shares {
            lane: 0.8,
            core: 0.5,
        };
        let lanes = lanes(&[100, 101, 102, 103]);
        let group = |root: &Path| {
            let place = LaneGroups::find(root, "bed").unwrap();
            place.apply(77, &lanes, shares).unwrap();
            let mut belongings = Belongings::default();
            place.belongings(&lanes, shares, &mut belongings);
            assert_eq!(belongings.cgroups.len(), 7);
            let inside = |group: &PathBuf| group.ends_with("bed/core1");
            assert!(belongings.cgroups[4..].iter().any(inside));
            assert!(belongings.cgroups[6].ends_with("bed"));
            place.group
        };
        let of_v1 = group(v1.path());
        assert_eq!(text(&of_v1, "core1/cpu.cfs_quota_us"), "2500");
        assert_eq!(text(&of_v1, "core1/lane3/cpu.cfs_quota_us"), "2000");
        assert_eq!(text(&of_v1, "core1/lane3/tasks"), "103");
        let of_v2 = group(v2.path());
        assert_eq!(text(&of_v2, "core0/cpu.max"), "2500 5000");
        assert_eq!(text(&of_v2, "core0/cgroup.type"), "threaded");
        assert_eq!(text(&of_v2, "core0/cgroup.subtree_control"), "+cpu");
        assert_eq!(text(&of_v2, "core0/lane1/cpu.max"), "2000 5000");
        assert_eq!(text(&of_v2, "core0/lane1/cgroup.threads"), "101");
    }

    #[test]
    fn without_the_controller_it_is_refused_with_a_remedy() {
        let none = tree(&[("proc/self/mountinfo", ""), ("proc/self/cgroup", "")]);
        let bare = tree(&[
            ("proc/self/mountinfo", V2_MOUNTS),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory"),
        ]);
        for root in [none, bare] {
            let error = LaneGroups::find(root.path(), "bed").unwrap_err();
            assert!(error.to_string().contains("--thread-perf 1,0.5"), "{error}");
        }
    }

    #[test]
    fn quotas_are_parts_of_the_period() {
        assert_eq!(bandwidth_us(1.0), (5000, 5000));
        assert_eq!(bandwidth_us(0.7937), (3969, 5000));
        assert_eq!(bandwidth_us(0.125), (1000, 8000));
    }
}
