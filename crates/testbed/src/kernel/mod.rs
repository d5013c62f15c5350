//! The kernel to boot: one of the distribution's, fetched and cached, or one's own.

mod apt;
mod cache;
mod image;
mod listing;
pub mod modules;
mod release;

pub use cache::Cache;
pub use image::Image;
pub use listing::{Listed, list, render};

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::spec::Kernel;
use cache::{Locked, Offer};
use release::Release;
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
