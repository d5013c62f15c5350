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
/// "newest" looks again once the list of what there is has grown old, and makes do with what is
/// cached when it cannot.
pub fn find(wanted: &Wanted) -> Result<Image> {
    let image = match wanted.kernel {
        Kernel::Path(path) => Image::at(path)?,
        Kernel::Newest => find_release(wanted, None)?,
        Kernel::Version(text) => find_release(wanted, Some(text))?,
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

fn find_release(wanted: &Wanted, text: Option<&str>) -> Result<Image> {
    let cache = Cache::open()?;
    let complete = |release: &Release| {
        cache
            .kernel(release)
            .filter(|image| !wanted.modules || image.modules.is_some())
    };
    let cached = |fits: &dyn Fn(&Release) -> bool| {
        cache
            .kernels()
            .iter()
            .filter(|r| fits(r))
            .find_map(complete)
    };
    if let Some(text) = text
        && let Some(image) = cached(&|release| release.is_exactly(text))
    {
        return Ok(image);
    }
    if let Some((offer, true)) = cache.offer(SUITE)
        && let Some(image) = newest(&offer, text).and_then(|release| complete(&release))
    {
        return Ok(image);
    }
    match fetch(&cache, wanted, text) {
        Err(Error::Kernel(why)) => {
            let image = cached(&|release| text.is_none_or(|text| release.is_called(text)));
            let image = image.ok_or_else(|| Error::Kernel(why.clone()))?;
            (wanted.notice)(&format!("using the cached kernel {}: {why}", image.version));
            Ok(image)
        }
        other => other,
    }
}

/// Fetches the newest kernel that fits.
fn fetch(cache: &Cache, wanted: &Wanted, text: Option<&str>) -> Result<Image> {
    let locked = cache.lock(wanted.interrupt)?;
    // Looked at under the lock: another run may have just read the list or fetched this kernel.
    if let Some((offer, true)) = cache.offer(SUITE) {
        match fetch_from(cache, &locked, &offer, wanted, text) {
            // The archive drops old packages: what failed by an older list may go by a new one.
            Err(Error::Kernel(_)) => {}
            other => return other,
        }
    }
    (wanted.notice)(&format!("looking for kernels in {SUITE}"));
    let offer = locked.refresh(SUITE)?;
    fetch_from(cache, &locked, &offer, wanted, text)
}

fn fetch_from(
    cache: &Cache,
    locked: &Locked,
    offer: &Offer,
    wanted: &Wanted,
    text: Option<&str>,
) -> Result<Image> {
    let release = newest(offer, text).ok_or_else(|| {
        let text = text.unwrap_or("newest");
        Error::Kernel(format!(
            "{SUITE} has no kernel {text}; `sidelane testbed kernels` lists what there is"
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

fn newest(offer: &Offer, text: Option<&str>) -> Option<Release> {
    let mut all = release::releases(&offer.packages).into_iter();
    all.find(|release| text.is_none_or(|text| release.is_called(text)))
}
