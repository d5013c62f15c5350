//! A machine in files, for tests.

use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// `/sys` and `/proc` of a machine of one package, its siblings adjacent.
pub struct Tree {
    folder: TempDir,
    cpus: u32,
}

impl Tree {
    /// All online.
    pub fn new(cores: u32, lanes: u32) -> Tree {
        let tree = Tree {
            folder: tempfile::tempdir().unwrap(),
            cpus: cores * lanes,
        };
        let all = format!("0-{}", tree.cpus - 1);
        fs::create_dir_all(tree.root().join("proc")).unwrap();
        for (name, content) in [
            ("possible", all.as_str()),
            ("present", &all),
            ("online", &all),
            ("isolated", ""),
            ("smt/control", "on"),
            ("smt/active", "1"),
        ] {
            tree.write(name, content);
        }
        for cpu in 0..tree.cpus {
            let first = cpu / lanes * lanes;
            let siblings = format!("{first}-{}", first + lanes - 1);
            tree.write(&format!("cpu{cpu}/online"), "1");
            for (name, content) in [
                ("physical_package_id", "0"),
                ("core_id", &(cpu / lanes).to_string()),
                ("thread_siblings_list", &siblings),
                ("core_cpus_list", &siblings),
            ] {
                tree.write(&format!("cpu{cpu}/topology/{name}"), content);
            }
        }
        tree
    }

    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, content: &str) {
        let path = self.cpu_path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A file anywhere below the root.
    pub fn file(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.cpu_path(name)).unwrap()
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.cpu_path(name)).unwrap();
    }

    /// A folder in place of a file: it can be neither read nor written.
    pub fn spoil(&self, name: &str) {
        self.remove(name);
        fs::create_dir(self.cpu_path(name)).unwrap();
    }

    /// The content of all `cpuN/online`.
    pub fn online_files(&self) -> String {
        (0..self.cpus)
            .map(|cpu| self.read(&format!("cpu{cpu}/online")))
            .collect()
    }

    /// What the kernel does when `online` files are written.
    pub fn apply_online_files(&self) {
        let files = self.online_files();
        let cpus = files.chars().zip(0..).filter(|(online, _)| *online == '1');
        let cpus: sidelane_topology::CpuList = cpus.map(|(_, cpu)| cpu).collect();
        self.write("online", &cpus.to_string());
        for cpu in (0..self.cpus).filter(|cpu| !cpus.contains(*cpu)) {
            let _ = fs::remove_dir_all(self.cpu_path(&format!("cpu{cpu}/topology")));
        }
    }

    /// A task of one thread that may run on some CPUs.
    pub fn task(&self, id: u32, cpus: &str) {
        let folder = self.root().join(format!("proc/{id}/task/{id}"));
        fs::create_dir_all(&folder).unwrap();
        let status = format!("Name:\tworker\nPid:\t{id}\nPPid:\t1\nCpus_allowed_list:\t{cpus}\n");
        fs::write(folder.join("status"), status).unwrap();
    }

    fn cpu_path(&self, name: &str) -> std::path::PathBuf {
        self.root().join("sys/devices/system/cpu").join(name)
    }
}
