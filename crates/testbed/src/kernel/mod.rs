//! The kernel to boot: one of the distribution's, fetched and cached, or one's own; and which there are.

mod apt;
mod cache;
mod image;
pub mod modules;
mod release;

pub use cache::Cache;
pub use image::Image;

use crate::error::{Error, Interrupt, Result};
use crate::spec::Kernel;
use cache::{Locked, Offer};
use release::Release;
use serde::Serialize;
use std::fmt;

/// The Debian suite that has kernels with sched_ext.
pub const SUITE: &str = "trixie-backports";

/// What to look for, and where to say what takes time or is amiss.
pub struct Wanted<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Its modules too.
    pub modules: bool,
    /// Raised to stop.
    pub interrupt: &'a Interrupt,
    /// Is told what the user should know.
    pub notice: fn(&str),
}

/// Finds the kernel asked for, fetching it where it is not cached. What is cached needs no network;
/// "newest" and "oldest" look again once the list of what there is has grown old, and make do with what is
/// cached when they cannot.
pub fn find(wanted: &Wanted) -> Result<Image> {
    let image = match wanted.kernel {
        Kernel::Path(path) => Image::at(path)?,
        Kernel::Newest => find_release(wanted, Choice::Newest)?,
        Kernel::Oldest => find_release(wanted, Choice::Oldest)?,
        Kernel::Version(text) => find_release(wanted, Choice::Called(text))?,
    };
    if image.config.is_none() {
        (wanted.notice)(&format!(
            "no configuration is to be had for kernel {}: the guest has no /boot/config, which BPF \
             programs may need",
            image.version
        ));
    }
    Ok(image)
}

/// Which of the distribution's kernels.
#[derive(Clone, Copy)]
enum Choice<'a> {
    Newest,
    Oldest,
    /// The newest whose version begins so.
    Called(&'a str),
}

impl Choice<'_> {
    /// The one of `releases`, newest first, of which `look` finds something.
    fn find<T>(self, releases: Vec<Release>, look: impl Fn(&Release) -> Option<T>) -> Option<T> {
        let mut releases = releases.iter();
        match self {
            Choice::Newest => releases.find_map(look),
            Choice::Oldest => releases.rev().find_map(look),
            Choice::Called(text) => releases.filter(|r| r.is_called(text)).find_map(look),
        }
    }

    fn of(self, offer: &Offer) -> Option<Release> {
        self.find(release::releases(&offer.packages), |r| Some(r.clone()))
    }
}

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Choice::Newest => "newest",
            Choice::Oldest => "oldest",
            Choice::Called(text) => text,
        })
    }
}

fn find_release(wanted: &Wanted, choice: Choice) -> Result<Image> {
    let cache = Cache::open()?;
    let complete = |release: &Release| {
        cache
            .kernel(release)
            .filter(|image| !wanted.modules || image.modules.is_some())
    };
    if let Choice::Called(text) = choice
        && let Some(release) = cache.kernels().iter().find(|r| r.is_exactly(text))
        && let Some(image) = complete(release)
    {
        return Ok(image);
    }
    if let Some((offer, true)) = cache.offer(SUITE)
        && let Some(image) = choice.of(&offer).and_then(|release| complete(&release))
    {
        return Ok(image);
    }
    match fetch(&cache, wanted, choice) {
        Err(Error::Kernel(why)) => {
            let image = choice.find(cache.kernels(), complete);
            let image = image.ok_or_else(|| Error::Kernel(why.clone()))?;
            (wanted.notice)(&format!("using the cached kernel {}: {why}", image.version));
            Ok(image)
        }
        other => other,
    }
}

/// Fetches it.
fn fetch(cache: &Cache, wanted: &Wanted, choice: Choice) -> Result<Image> {
    let locked = cache.lock(wanted.interrupt)?;
    // Looked at under the lock: another run may have just read the list or fetched this kernel.
    if let Some((offer, true)) = cache.offer(SUITE) {
        match fetch_from(cache, &locked, &offer, wanted, choice) {
            // The archive drops old packages: what failed by an older list may go by a new one.
            Err(Error::Kernel(_)) => {}
            other => return other,
        }
    }
    (wanted.notice)(&format!("looking for kernels in {SUITE}"));
    let offer = locked.refresh(SUITE)?;
    fetch_from(cache, &locked, &offer, wanted, choice)
}

fn fetch_from(
    cache: &Cache,
    locked: &Locked,
    offer: &Offer,
    wanted: &Wanted,
    choice: Choice,
) -> Result<Image> {
    let release = choice.of(offer).ok_or_else(|| {
        Error::Kernel(format!(
            "{SUITE} has no kernel {choice}; `sidelane testbed kernels` lists what there is"
        ))
    })?;
    let name = release.name();
    if cache.kernel(&release).is_none() {
        (wanted.notice)(&format!("fetching kernel {name}"));
        locked.fetch_kernel(&release, offer)?;
    }
    let lacks_modules = cache
        .kernel(&release)
        .is_some_and(|image| image.modules.is_none());
    if wanted.modules && lacks_modules {
        (wanted.notice)(&format!("fetching the modules of kernel {name}"));
        locked.fetch_modules(&release, offer)?;
    }
    cache
        .kernel(&release)
        .ok_or_else(|| Error::Kernel(format!("{name} vanished from the cache")))
}

/// A kernel in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// As `uname -r` prints it.
    pub version: String,
    /// It lies in the cache.
    pub cached: bool,
    /// It can be fetched.
    pub available: bool,
    /// Its configuration can be had (libbpf may need it in the guest).
    pub config: bool,
    /// Its modules can be had.
    pub modules: bool,
}

/// All kernels that are cached or can be fetched, newest first. Reads the distribution's list again
/// when it is old or `refresh` asks for it; without a network the cached ones are listed.
pub fn list(refresh: bool, interrupt: &Interrupt, notice: fn(&str)) -> Result<Vec<Listed>> {
    let cache = Cache::open()?;
    let known = cache.offer(SUITE).filter(|(_, fresh)| *fresh && !refresh);
    let offer = match known {
        Some((offer, _)) => offer,
        None => match cache.lock(interrupt)?.refresh(SUITE) {
            Ok(offer) => offer,
            Err(Error::Kernel(why)) => {
                notice(&format!("only what is cached: {why}"));
                Offer::default()
            }
            Err(other) => return Err(other),
        },
    };
    let mut all = release::releases(&offer.packages);
    all.extend(cache.kernels());
    all.sort_by(|a, b| b.cmp(a));
    all.dedup();
    let listed = all.iter().map(|release| {
        let cached = cache.kernel(release);
        let has = |of: fn(&Image) -> bool| cached.as_ref().is_some_and(of);
        Listed {
            version: release.name().to_string(),
            cached: cached.is_some(),
            available: !release.kernel_packages(&offer.packages).is_empty(),
            config: release.has_config(&offer.packages) || has(|image| image.config.is_some()),
            modules: !release.module_packages(&offer.packages).is_empty()
                || has(|image| image.modules.is_some()),
        }
    });
    Ok(listed.collect())
}

/// The listing as text.
pub fn render(kernels: &[Listed]) -> String {
    let mark = |yes: bool, word: &'static str| if yes { word } else { "-" };
    let mut text = format!(
        "{:<34} {:<7} {:<10} {:<14} {}\n",
        "kernel", "cached", "available", "configuration", "modules"
    );
    for kernel in kernels {
        text += &format!(
            "{:<34} {:<7} {:<10} {:<14} {}\n",
            kernel.version,
            mark(kernel.cached, "cached"),
            mark(kernel.available, "available"),
            mark(kernel.config, "yes"),
            mark(kernel.modules, "yes"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_is_a_table() {
        let kernel = Listed {
            version: "7.3.4+deb13-cloud-amd64".into(),
            cached: true,
            available: false,
            config: true,
            modules: false,
        };
        let text = render(&[kernel]);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0],
            ["kernel", "cached", "available", "configuration", "modules"]
        );
        assert_eq!(
            lines[1],
            ["7.3.4+deb13-cloud-amd64", "cached", "-", "yes", "-"]
        );
    }
}
