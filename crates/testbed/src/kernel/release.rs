//! A kernel release of the distribution and the packages that hold it.
//!
//! The packaging changed with time. Up to 6.18 `linux-image-R` holds everything. Later
//! `linux-binary-R` holds the image, `linux-base-R` the configuration and `linux-modules-R` the
//! modules; of older releases the archive keeps the signed binary only.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The flavour that boots without an initial ramdisk of drivers: virtio is built in.
const FLAVOUR: &str = "-cloud-amd64";

/// A release as `uname -r` prints it: `7.3.4+deb13-cloud-amd64`. Ordered by version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    name: String,
    numbers: Vec<u64>,
}

impl Release {
    /// Reads a release's name; none for other flavours and anything else.
    pub fn parse(name: &str) -> Option<Release> {
        let version = name.strip_suffix(FLAVOUR)?;
        let dotted = version.split(['+', '-', '~']).next()?;
        let numbers: Option<Vec<u64>> = dotted.split('.').map(|n| n.parse().ok()).collect();
        let numbers = numbers.filter(|n| n.len() >= 2)?;
        Some(Release {
            name: name.to_string(),
            numbers,
        })
    }

    /// As `uname -r` prints it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is this the release that the user means by `7`, `7.0`, `7.0.13` or the whole name?
    pub fn is_called(&self, text: &str) -> bool {
        let wanted: Option<Vec<u64>> = text.split('.').map(|n| n.parse().ok()).collect();
        self.name == text || wanted.is_some_and(|numbers| self.numbers.starts_with(&numbers))
    }

    /// Does this text name one release and not a series?
    pub fn is_exactly(&self, text: &str) -> bool {
        self.is_called(text) && (self.name == text || text.split('.').count() == self.numbers.len())
    }

    /// The packages with the image and, where there is one, the configuration. Empty if there is no
    /// image.
    pub fn kernel_packages(&self, offered: &BTreeSet<String>) -> Vec<String> {
        let [binary, base, image] = ["binary", "base", "image"].map(|part| self.package(part));
        if offered.contains(&binary) {
            let base = offered.contains(&base).then_some(base);
            return std::iter::once(binary).chain(base).collect();
        }
        offered
            .contains(&image)
            .then_some(image)
            .into_iter()
            .collect()
    }

    /// The packages with the modules. Empty if the archive has none.
    pub fn module_packages(&self, offered: &BTreeSet<String>) -> Vec<String> {
        let modules = self.package("modules");
        if offered.contains(&modules) {
            return vec![modules];
        }
        // An image package beside a binary one is empty: it only depends on the others.
        let all_in_one = self.package("image");
        let whole = offered.contains(&all_in_one) && !offered.contains(&self.package("binary"));
        whole.then_some(all_in_one).into_iter().collect()
    }

    /// Will the configuration come along?
    pub fn has_config(&self, offered: &BTreeSet<String>) -> bool {
        let packages = self.kernel_packages(offered);
        packages.contains(&self.package("base")) || packages.contains(&self.package("image"))
    }

    fn package(&self, part: &str) -> String {
        format!("linux-{part}-{}", self.name)
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The releases that can be fetched, newest first.
pub fn releases(offered: &BTreeSet<String>) -> Vec<Release> {
    let of = |name: &str| {
        let rest = name.strip_prefix("linux-")?;
        Release::parse(
            rest.strip_prefix("binary-")
                .or_else(|| rest.strip_prefix("image-"))?,
        )
    };
    let mut found: Vec<Release> = offered.iter().filter_map(|name| of(name)).collect();
    found.sort_by(|a, b| b.cmp(a));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Package names of all three schemes, as the archive has them.
    fn offered() -> BTreeSet<String> {
        [
            "linux-base-7.3.4+deb13-cloud-amd64",
            "linux-base-cloud-amd64",
            "linux-binary-7.3.4+deb13-cloud-amd64",
            "linux-binary-unsigned-7.3.4+deb13-cloud-amd64",
            "linux-modules-7.3.4+deb13-cloud-amd64",
            "linux-image-7.3.4+deb13-cloud-amd64",
            "linux-image-7.3.4+deb13-cloud-amd64-dbg",
            "linux-image-7.3.4+deb13-amd64",
            "linux-binary-7.0.13+deb13-cloud-amd64",
            "linux-image-7.0.13+deb13-cloud-amd64",
            "linux-binary-7.0.4+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-cloud-amd64",
        ]
        .map(str::to_string)
        .into()
    }

    fn release(name: &str) -> Release {
        Release::parse(&format!("{name}+deb13-cloud-amd64")).unwrap()
    }

    #[test]
    fn releases_are_listed_newest_first_by_number() {
        let names: Vec<String> = releases(&offered())
            .iter()
            .map(|r| r.name().to_string())
            .collect();
        let want =
            ["7.3.4", "7.0.13", "7.0.4", "6.18.15"].map(|v| format!("{v}+deb13-cloud-amd64"));
        assert_eq!(names, want);
    }

    #[test]
    fn each_scheme_has_its_packages() {
        let offered = offered();
        let short = |list: Vec<String>| -> Vec<String> {
            list.iter()
                .map(|p| p.split("-cloud").next().unwrap().replace("+deb13", ""))
                .collect()
        };
        let new = release("7.3.4");
        assert_eq!(
            short(new.kernel_packages(&offered)),
            ["linux-binary-7.3.4", "linux-base-7.3.4"]
        );
        assert_eq!(
            short(new.module_packages(&offered)),
            ["linux-modules-7.3.4"]
        );
        assert!(new.has_config(&offered));
        let bare = release("7.0.13");
        assert_eq!(
            short(bare.kernel_packages(&offered)),
            ["linux-binary-7.0.13"]
        );
        assert!(bare.module_packages(&offered).is_empty() && !bare.has_config(&offered));
        let old = release("6.18.15");
        assert_eq!(
            short(old.kernel_packages(&offered)),
            ["linux-image-6.18.15"]
        );
        assert_eq!(
            short(old.module_packages(&offered)),
            ["linux-image-6.18.15"]
        );
        assert!(old.has_config(&offered));
        assert!(release("5.10.1").kernel_packages(&offered).is_empty());
    }

    #[test]
    fn a_version_names_a_series_or_one_release() {
        let r = release("7.0.13");
        for text in ["7", "7.0", "7.0.13", "7.0.13+deb13-cloud-amd64"] {
            assert!(r.is_called(text), "{text}");
        }
        for text in ["7.0.1", "70", "6", "", "seven"] {
            assert!(!r.is_called(text), "{text}");
        }
        assert!(r.is_exactly("7.0.13") && !r.is_exactly("7.0"));
    }
}
