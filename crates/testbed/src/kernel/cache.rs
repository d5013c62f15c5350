//! The cache of fetched kernels: a folder a kernel, put there whole or not at all.

use super::apt::Apt;
use super::image::Image;
use super::release::Release;
use crate::error::{During, Error, Interrupt, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How old the list of what the distribution offers may be before it is read again.
const LIST_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Folders under construction; whoever holds the lock may remove those of a run that was killed.
const PARTIAL: &str = "partial-";

/// The cache folder.
pub struct Cache {
    folder: PathBuf,
}

/// What the distribution offered when last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The suite.
    pub suite: String,
    /// Names of all kernel packages.
    pub packages: BTreeSet<String>,
}

/// The cache while no other process changes it.
pub struct Locked<'a> {
    cache: &'a Cache,
    interrupt: &'a Interrupt,
    _lock: Flock<File>,
}

impl Cache {
    /// The user's cache: `$SIDELANE_CACHE`, else `$XDG_CACHE_HOME/sidelane`, else
    /// `~/.cache/sidelane`.
    pub fn open() -> Result<Cache> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let folder = variable("SIDELANE_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|f| f.join("sidelane")))
            .or_else(|| variable("HOME").map(|f| f.join(".cache/sidelane")))
            .ok_or_else(|| {
                Error::Kernel("no place for a cache: set SIDELANE_CACHE to a folder".into())
            })?;
        Cache::at(&folder)
    }

    /// A cache in a given folder, which is created.
    pub fn at(folder: &Path) -> Result<Cache> {
        let folder = std::path::absolute(folder).during(|| format!("find {}", folder.display()))?;
        fs::create_dir_all(folder.join("kernels"))
            .during(|| format!("create {}", folder.display()))?;
        Ok(Cache { folder })
    }

    /// The cached kernels, newest first.
    pub fn kernels(&self) -> Vec<Release> {
        let names = fs::read_dir(self.folder.join("kernels"))
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<Release> = names
            .filter_map(|entry| Release::parse(&entry.file_name().to_string_lossy()))
            .filter(|release| self.kernel(release).is_some())
            .collect();
        found.sort_by(|a, b| b.cmp(a));
        found
    }

    /// A cached kernel.
    pub fn kernel(&self, release: &Release) -> Option<Image> {
        let folder = self.folder.join("kernels").join(release.name());
        let path = folder.join("vmlinuz");
        let modules = self.folder.join("modules").join(release.name());
        path.is_file().then(|| Image {
            version: release.name().to_string(),
            path,
            config: Some(folder.join("config")).filter(|file| file.is_file()),
            modules: Some(modules).filter(|folder| folder.is_dir()),
        })
    }

    /// The folder of packages that [`Locked::fetch_tree`] unpacked.
    pub fn tree(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|folder| folder.is_dir())
    }

    /// The last offer, and whether it is fresh.
    pub fn offer(&self, suite: &str) -> Option<(Offer, bool)> {
        let path = self.folder.join("offer.json");
        let offer: Offer = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        let changed = fs::metadata(&path).and_then(|m| m.modified()).ok()?;
        let age = SystemTime::now()
            .duration_since(changed)
            .unwrap_or_default();
        (offer.suite == suite).then_some((offer, age < LIST_AGE))
    }

    /// Waits until no other process changes the cache.
    pub fn lock<'a>(&'a self, interrupt: &'a Interrupt) -> Result<Locked<'a>> {
        let path = self.folder.join("lock");
        let mut file = File::create(&path).during(|| format!("create {}", path.display()))?;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => {
                    let locked = Locked {
                        cache: self,
                        interrupt,
                        _lock: lock,
                    };
                    locked.sweep();
                    return Ok(locked);
                }
                Err((back, Errno::EAGAIN)) => file = back,
                Err((_, error)) => return Err(error).during(|| format!("lock {}", path.display())),
            }
            if interrupt.raised() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Locked<'_> {
    /// Removes what killed runs left half-made.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.cache.folder)
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn apt(&self) -> Result<Apt<'_>> {
        Apt::new(self.cache.folder.join("apt"), self.interrupt)
    }

    fn partial(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(PARTIAL)
            .tempdir_in(&self.cache.folder)
            .during(|| format!("create a folder in {}", self.cache.folder.display()))
    }

    /// Asks the distribution what it offers.
    pub fn refresh(&self, suite: &str) -> Result<Offer> {
        let apt = self.apt()?;
        apt.update(suite)?;
        let offer = Offer {
            suite: suite.to_string(),
            packages: apt.packages("linux-")?,
        };
        let text = serde_json::to_vec(&offer).map_err(|e| Error::Kernel(e.to_string()))?;
        let partial = self.partial()?;
        let file = partial.path().join("offer.json");
        fs::write(&file, text).during(|| format!("write {}", file.display()))?;
        rename(&file, &self.cache.folder.join("offer.json"))?;
        Ok(offer)
    }

    /// Fetches a kernel and its configuration, unless they are there.
    pub fn fetch_kernel(&self, release: &Release, offer: &Offer) -> Result<()> {
        if self.cache.kernel(release).is_some() {
            return Ok(());
        }
        let tree = self.unpack_kernel(release, &release.kernel_packages(&offer.packages))?;
        let name = release.name();
        let first = |places: [String; 3]| {
            places
                .iter()
                .map(|p| tree.path().join("tree").join(p))
                .find(|p| p.is_file())
        };
        let image = first([
            format!("usr/lib/modules/{name}/vmlinuz"),
            format!("boot/vmlinuz-{name}"),
            format!("lib/modules/{name}/vmlinuz"),
        ])
        .ok_or_else(|| Error::Kernel(format!("the packages of {name} hold no kernel image")))?;
        let config = first([
            format!("usr/lib/modules/{name}/config"),
            format!("boot/config-{name}"),
            format!("lib/modules/{name}/config"),
        ]);
        let whole = tree.path().join("whole");
        fs::create_dir(&whole).during(|| format!("create {}", whole.display()))?;
        rename(&image, &whole.join("vmlinuz"))?;
        if let Some(config) = config {
            rename(&config, &whole.join("config"))?;
        }
        rename(&whole, &self.cache.folder.join("kernels").join(name))
    }

    /// Fetches a kernel's modules, unless they are there.
    pub fn fetch_modules(&self, release: &Release, offer: &Offer) -> Result<()> {
        let place = self.cache.folder.join("modules");
        let name = release.name();
        if place.join(name).is_dir() {
            return Ok(());
        }
        let packages = release.module_packages(&offer.packages);
        if packages.is_empty() {
            return Err(Error::Kernel(format!(
                "the distribution no longer has the modules of {name}; choose another kernel \
                 (`sidelane testbed kernels` shows which have them)"
            )));
        }
        let tree = self.unpack_kernel(release, &packages)?;
        let found = ["usr/lib/modules", "lib/modules"]
            .iter()
            .map(|folder| tree.path().join("tree").join(folder).join(name))
            .find(|folder| folder.join("kernel").is_dir())
            .ok_or_else(|| Error::Kernel(format!("the packages of {name} hold no modules")))?;
        fs::create_dir_all(&place).during(|| format!("create {}", place.display()))?;
        rename(&found, &place.join(name))
    }

    /// Fetches packages of a suite and keeps them unpacked under a name, unless they are there.
    pub fn fetch_tree(&self, name: &str, suite: &str, packages: &[&str]) -> Result<PathBuf> {
        if let Some(folder) = self.cache.tree(name) {
            return Ok(folder);
        }
        let apt = Apt::new(
            self.cache.folder.join(format!("apt-{suite}")),
            self.interrupt,
        )?;
        apt.update(suite)?;
        let packages: Vec<String> = packages.iter().map(|p| p.to_string()).collect();
        let partial = self.unpack(&apt, &packages)?;
        let folder = self.cache.folder.join(name);
        rename(&partial.path().join("tree"), &folder)?;
        Ok(folder)
    }

    fn unpack_kernel(&self, release: &Release, packages: &[String]) -> Result<tempfile::TempDir> {
        if packages.is_empty() {
            return Err(Error::Kernel(format!(
                "the distribution has no kernel {}",
                release.name()
            )));
        }
        self.unpack(&self.apt()?, packages)
    }

    /// Downloads packages and unpacks them into `tree` of a temporary folder.
    fn unpack(&self, apt: &Apt, packages: &[String]) -> Result<tempfile::TempDir> {
        let partial = self.partial()?;
        for package in packages {
            let file = apt.download(package, &partial.path().join("packages"))?;
            apt.unpack(&file, &partial.path().join("tree"))?;
        }
        Ok(partial)
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).during(|| format!("move {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(name: &str) -> Release {
        Release::parse(name).unwrap()
    }

    #[test]
    fn only_whole_kernels_count() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for (name, files) in [
            ("6.18.15+deb13-cloud-amd64", &["vmlinuz"][..]),
            ("7.3.4+deb13-cloud-amd64", &["vmlinuz", "config"]),
            ("7.3.5+deb13-cloud-amd64", &["config"]),
            ("nonsense", &["vmlinuz"]),
        ] {
            let kernel = folder.path().join("kernels").join(name);
            fs::create_dir(&kernel).unwrap();
            files
                .iter()
                .for_each(|f| fs::write(kernel.join(f), "").unwrap());
        }
        let names: Vec<String> = cache
            .kernels()
            .iter()
            .map(|r| r.name().to_string())
            .collect();
        assert_eq!(
            names,
            ["7.3.4+deb13-cloud-amd64", "6.18.15+deb13-cloud-amd64"]
        );
        assert!(
            cache
                .kernel(&release("6.18.15+deb13-cloud-amd64"))
                .unwrap()
                .config
                .is_none()
        );
        assert!(
            cache
                .kernel(&release("7.3.4+deb13-cloud-amd64"))
                .unwrap()
                .config
                .is_some()
        );
    }

    #[test]
    fn what_a_killed_run_left_is_swept_and_the_lock_excludes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let half = folder.path().join("partial-x");
        fs::create_dir(&half).unwrap();
        let interrupt = Interrupt::new().unwrap();
        let lock = cache.lock(&interrupt).unwrap();
        assert!(!half.exists());
        let stop = Interrupt::new().unwrap();
        stop.raise();
        assert!(matches!(cache.lock(&stop), Err(Error::Interrupted)));
        drop(lock);
        assert!(cache.lock(&interrupt).is_ok());
    }

    #[test]
    fn an_offer_of_another_suite_or_a_damaged_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let offer = Offer {
            suite: "a".into(),
            packages: BTreeSet::new(),
        };
        let file = folder.path().join("offer.json");
        fs::write(&file, serde_json::to_vec(&offer).unwrap()).unwrap();
        assert_eq!(cache.offer("a"), Some((offer, true)));
        assert_eq!(cache.offer("b"), None);
        fs::write(&file, "{").unwrap();
        assert_eq!(cache.offer("a"), None);
    }
}
