//! The machine that is measured: its cores, its SMT control, and a cgroup for each class.

use crate::error::{During, Error, Result};
use nix::unistd::Pid;
use sidelane_topology::{SmtControl, Topology};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long lanes may take to come online or go.
const SWITCH_PATIENCE: Duration = Duration::from_secs(20);

/// Cores, and lanes as CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The CPU numbers of the lanes of each core, first lane first.
    pub cores: Vec<Vec<u32>>,
}

impl Machine {
    /// Takes the cores with an online lane.
    pub fn of(topology: &Topology) -> Machine {
        Machine {
            cores: topology.online_by_core(),
        }
    }

    /// How many lanes there are.
    pub fn lane_count(&self) -> usize {
        self.cores.iter().map(Vec::len).sum()
    }

    /// All lanes.
    pub fn lanes(&self) -> Vec<u32> {
        self.cores.iter().flatten().copied().collect()
    }

    /// The first lane of each core.
    pub fn first_lanes(&self) -> Vec<u32> {
        self.cores
            .iter()
            .filter_map(|lanes| lanes.first())
            .copied()
            .collect()
    }

    /// Lanes of the widest core.
    pub fn lanes_max(&self) -> usize {
        self.cores.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// Refuses a machine on which no core has more than one lane; `what` it lacks therefore.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_smt(&self, what: &str) -> Result<()> {
        let problem = || format!("no core has more than one lane online: {what}");
        (self.lanes_max() > 1)
            .then_some(())
            .ok_or_else(|| Error::Unsupported(problem()))
    }
}

/// The switch that takes all lanes but one of each core offline; back on when this value goes.
pub struct SmtSwitch {
    /// `/sys/devices/system/cpu` of the machine.
    cpu_folder: PathBuf,
    lane_count: usize,
    core_count: usize,
    is_off: bool,
}

impl SmtSwitch {
    /// The switch of the machine whose `/sys` is given.
    pub fn new(sys: &Path, machine: &Machine) -> SmtSwitch {
        SmtSwitch {
            cpu_folder: sys.join("devices/system/cpu"),
            lane_count: machine.lane_count(),
            core_count: machine.cores.len(),
            is_off: false,
        }
    }

    /// Refuses machines on which the switch does nothing.
    pub fn check(&self) -> Result<()> {
        let path = self.cpu_folder.join("smt/control");
        let text = fs::read_to_string(&path).during(|| path.display().to_string())?;
        match text.parse::<SmtControl>() {
            Ok(SmtControl::On) => Ok(()),
            _ => Err(Error::Unsupported(format!(
                "{} says {:?}, not \"on\": SMT cannot be switched here; leave smt-off out of \
                 --configurations",
                path.display(),
                text.trim()
            ))),
        }
    }

    /// Switches and waits until the lanes have followed. Nothing happens when it is so already.
    pub fn set(&mut self, on: bool) -> Result<()> {
        if on != self.is_off {
            return Ok(());
        }
        let path = self.cpu_folder.join("smt/control");
        self.is_off = true; // also if it fails half-way: then `drop` tries to switch on
        fs::write(&path, if on { "on" } else { "off" }).during(|| path.display().to_string())?;
        let wanted = if on { self.lane_count } else { self.core_count };
        let deadline = Instant::now() + SWITCH_PATIENCE;
        while self.online()? != wanted {
            if Instant::now() > deadline {
                return Err(Error::Unsupported(format!(
                    "{} lanes are online {} s after switching SMT {}, not {wanted}",
                    self.online()?,
                    SWITCH_PATIENCE.as_secs(),
                    if on { "on" } else { "off" },
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.is_off = !on;
        Ok(())
    }

    fn online(&self) -> Result<usize> {
        let path = self.cpu_folder.join("online");
        let text = fs::read_to_string(&path).during(|| path.display().to_string())?;
        let list: std::result::Result<sidelane_topology::CpuList, _> = text.trim().parse();
        list.map(|list| list.len())
            .map_err(|error| Error::Unsupported(format!("{}: {error}", path.display())))
    }
}

impl Drop for SmtSwitch {
    fn drop(&mut self) {
        if self.is_off {
            let _ = fs::write(self.cpu_folder.join("smt/control"), "on");
        }
    }
}

/// The cgroups of the classes, below one folder: `critical`, `batch`, and `normal` for the process
/// that measures.
///
/// No controller is enabled inside that folder: with the `cpu` controller the kernel would share out
/// lanes between the groups first, and `SCHED_IDLE` would mean nothing between batch and the rest.
/// For the same reason the measuring process moves in beside them.
pub struct Cgroups {
    /// The folder of the cgroup file system's root.
    mount: PathBuf,
    /// Path of the folder below the mount, with a leading slash.
    parent: String,
    /// Their names.
    names: &'static [&'static str],
    /// Where the measuring process was before it moved in.
    home: Option<PathBuf>,
}

/// Where the measuring process moves in.
const OWN: &str = "normal";
/// The cgroups of the classes.
const CLASSES: &[&str] = &["critical", "batch", OWN];
/// Those of two pools.
const POOLS: &[&str] = &["alone", "sharing", OWN];

impl Cgroups {
    /// Makes the cgroups below `parent`, and moves the calling process into `normal`.
    ///
    /// # Errors
    /// No cgroup v2 tree is mounted, or the kernel refuses.
    pub fn enter(parent: &str) -> Result<Cgroups> {
        Cgroups::enter_named(parent, CLASSES)
    }

    /// The same with those of two pools, `alone` and `sharing`, instead of the classes.
    ///
    /// # Errors
    /// As with [`Cgroups::enter`].
    pub fn enter_pools(parent: &str) -> Result<Cgroups> {
        Cgroups::enter_named(parent, POOLS)
    }

    fn enter_named(parent: &str, names: &'static [&'static str]) -> Result<Cgroups> {
        let mut cgroups = Cgroups::create(&cgroup2_mount(Path::new("/"))?, parent, names)?;
        cgroups.move_in()?;
        Ok(cgroups)
    }

    /// Makes the cgroups below `parent` in the cgroup v2 tree mounted at `mount`.
    fn create(mount: &Path, parent: &str, names: &'static [&'static str]) -> Result<Cgroups> {
        let parent = format!("/{}", parent.trim_matches('/'));
        let cgroups = Cgroups {
            mount: mount.to_owned(),
            parent,
            names,
            home: None,
        };
        for name in names {
            let folder = cgroups.folder(name);
            fs::create_dir_all(&folder).during(|| folder.display().to_string())?;
        }
        Ok(cgroups)
    }

    /// The path of a class's cgroup as rules write it.
    pub fn path(&self, class: &str) -> String {
        format!("{}/{class}", self.parent)
    }

    fn folder(&self, class: &str) -> PathBuf {
        self.mount.join(self.path(class).trim_start_matches('/'))
    }

    /// Moves a process with all its threads into the class's cgroup.
    pub fn add(&self, class: &str, pid: Pid) -> Result<()> {
        let path = self.folder(class).join("cgroup.procs");
        fs::write(&path, pid.to_string())
            .during(|| format!("moving process {pid} to {}", path.display()))
    }

    /// Moves the calling process into `normal`, until this value goes.
    fn move_in(&mut self) -> Result<()> {
        let path = "/proc/self/cgroup";
        let text = fs::read_to_string(path).during(|| path.into())?;
        let home = text.lines().find_map(|line| line.strip_prefix("0::/"));
        self.home = home.map(|home| self.mount.join(home).join("cgroup.procs"));
        self.add(OWN, Pid::this())
    }

    /// The threads that are in the class's cgroup.
    pub fn threads(&self, class: &str) -> Result<Vec<u32>> {
        let path = self.folder(class).join("cgroup.threads");
        let text = fs::read_to_string(&path).during(|| path.display().to_string())?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            let _ = fs::write(home, Pid::this().to_string());
        }
        // Fails while processes are left in them, which whoever owns this ends first.
        for name in self.names {
            let _ = fs::remove_dir(self.folder(name));
        }
        let _ = fs::remove_dir(self.mount.join(self.parent.trim_start_matches('/')));
    }
}

/// Where the cgroup v2 tree is mounted on the machine below `root`.
fn cgroup2_mount(root: &Path) -> Result<PathBuf> {
    let mount = sidelane_label::mount_point(root).during(|| "/proc/self/mounts".into())?;
    mount.ok_or_else(|| {
        Error::Unsupported(
            "no cgroup v2 tree is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup".into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            cores: vec![vec![0, 4, 8], vec![1, 5], vec![2]],
        }
    }

    #[test]
    fn lanes_of_uneven_cores() {
        assert_eq!(machine().lane_count(), 6);
        assert_eq!(machine().first_lanes(), [0, 1, 2]);
        assert_eq!(machine().lanes(), [0, 4, 8, 1, 5, 2]);
        assert_eq!(machine().lanes_max(), 3);
        assert!(machine().check_smt("no lane").is_ok());
        let cores = vec![vec![0], vec![1]];
        assert!(Machine { cores }.check_smt("no lane").is_err());
    }

    #[test]
    fn the_switch_waits_for_the_lanes_and_is_put_back() {
        let sys = tempfile::tempdir().unwrap();
        let cpu = sys.path().join("devices/system/cpu");
        fs::create_dir_all(cpu.join("smt")).unwrap();
        let control = || fs::read_to_string(cpu.join("smt/control")).unwrap();
        fs::write(cpu.join("smt/control"), "on\n").unwrap();
        fs::write(cpu.join("online"), "0-2\n").unwrap();
        let mut switch = SmtSwitch::new(sys.path(), &machine());
        switch.check().unwrap();
        switch.set(true).unwrap();
        assert_eq!(control(), "on\n", "already on: not written");
        switch.set(false).unwrap();
        assert_eq!(control(), "off");
        drop(switch);
        assert_eq!(control(), "on");
        fs::write(cpu.join("smt/control"), "notsupported\n").unwrap();
        let error = SmtSwitch::new(sys.path(), &machine()).check().unwrap_err();
        assert!(error.to_string().contains("--configurations"), "{error}");
    }

    #[test]
    fn cgroups_are_made_named_and_removed() {
        let mount = tempfile::tempdir().unwrap();
        let cgroups = Cgroups::create(mount.path(), "demo", CLASSES).unwrap();
        assert_eq!(cgroups.path("batch"), "/demo/batch");
        assert!(mount.path().join("demo/batch").is_dir());
        let threads = mount.path().join("demo/critical/cgroup.threads");
        fs::write(&threads, "12\n7\n").unwrap();
        assert_eq!(cgroups.threads("critical").unwrap(), [12, 7]);
        cgroups.add("batch", Pid::from_raw(7)).unwrap();
        let procs = mount.path().join("demo/batch/cgroup.procs");
        assert_eq!(fs::read_to_string(&procs).unwrap(), "7");
        // A real cgroup's folder goes with its files.
        fs::remove_file(threads).unwrap();
        fs::remove_file(procs).unwrap();
        drop(cgroups);
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_cgroup2_mount_is_found_among_others() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let write = |mounts| fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        write(mounts);
        assert_eq!(
            cgroup2_mount(root.path()).unwrap(),
            Path::new("/sys/fs/cgroup/unified")
        );
        write("proc /proc proc rw 0 0\n");
        assert!(cgroup2_mount(root.path()).is_err());
    }
}
