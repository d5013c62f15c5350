//! The kernels that are cached or can be fetched.

use super::SUITE;
use super::cache::{Cache, Offer};
use super::image::Image;
use super::release;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use serde::Serialize;

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
