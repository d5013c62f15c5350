//! Sets of CPU numbers in the kernel's list form: `0-3,8`.

use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The highest CPU number accepted, far above any kernel's `NR_CPUS` (8192 on x86-64). The limit
/// keeps a corrupt list such as `0-4294967295` from being expanded.
pub const CPU_MAX: u32 = 65_535;

/// A set of CPU numbers, ascending, read and printed in the kernel's list form.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuList(BTreeSet<u32>);

/// What is wrong with a CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// A part between commas is neither a number nor a range.
    #[error("\"{0}\" is neither a CPU number nor a range; expected a list such as 0-3,8")]
    Part(String),
    /// A range whose end lies before its beginning.
    #[error("the range \"{0}\" runs backwards; expected a list such as 0-3,8")]
    Backwards(String),
    /// A CPU number above [`CPU_MAX`].
    #[error("CPU {0} is above the highest number accepted, {CPU_MAX}")]
    TooLarge(u64),
}

impl CpuList {
    /// The set without CPUs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPU numbers, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs the set holds.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set holds no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest CPU number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// The highest CPU number.
    pub fn last(&self) -> Option<u32> {
        self.0.last().copied()
    }

    /// Adds `cpu`; false if it was there already.
    pub fn insert(&mut self, cpu: u32) -> bool {
        self.0.insert(cpu)
    }

    /// The CPUs of this set that are not in `other`.
    pub fn difference(&self, other: &CpuList) -> CpuList {
        CpuList(self.0.difference(&other.0).copied().collect())
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &CpuList) -> bool {
        self.0.is_subset(&other.0)
    }

    /// The set as the fewest ascending ranges.
    pub fn ranges(&self) -> Vec<RangeInclusive<u32>> {
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for cpu in self.iter() {
            match ranges.last_mut() {
                Some(last) if last.end() + 1 == cpu => *last = *last.start()..=cpu,
                _ => ranges.push(cpu..=cpu),
            }
        }
        ranges
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        CpuList(cpus.into_iter().collect())
    }
}

impl<const N: usize> From<[u32; N]> for CpuList {
    fn from(cpus: [u32; N]) -> Self {
        cpus.into_iter().collect()
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    /// Parses `0-3,8`. White space around the list and its parts is allowed, and nothing but white
    /// space is the empty set, which is what the kernel prints for it.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let mut list = CpuList::new();
        if text.trim().is_empty() {
            return Ok(list);
        }
        for part in text.split(',') {
            list.0.extend(parse_part(part.trim())?);
        }
        Ok(list)
    }
}

/// Parses `8` or `0-3`.
fn parse_part(part: &str) -> Result<RangeInclusive<u32>, CpuListError> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (parse_cpu(first, part)?, parse_cpu(last, part)?);
    if first > last {
        return Err(CpuListError::Backwards(part.to_owned()));
    }
    Ok(first..=last)
}

/// Parses one number of `part`: digits only, as `u64::from_str` would also accept a sign.
fn parse_cpu(digits: &str, part: &str) -> Result<u32, CpuListError> {
    let malformed = || CpuListError::Part(part.to_owned());
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    let cpu: u64 = digits.parse().map_err(|_| malformed())?;
    match u32::try_from(cpu) {
        Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
        _ => Err(CpuListError::TooLarge(cpu)),
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .ranges()
            .iter()
            .map(|range| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first}-{last}"),
            })
            .collect();
        f.pad(&parts.join(","))
    }
}

impl Serialize for CpuList {
    /// Serialises as a string in list form.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_what_the_kernel_prints() {
        for (text, cpus) in [
            ("0-3,8\n", vec![0, 1, 2, 3, 8]),
            ("5", vec![5]),
            ("\n", vec![]),
            ("0-0", vec![0]),
            ("2,1", vec![1, 2]),
            ("0-2, 2-3", vec![0, 1, 2, 3]),
        ] {
            let list: CpuList = text.parse().unwrap();
            assert_eq!(list.iter().collect::<Vec<_>>(), cpus, "{text:?}");
        }
    }

    #[test]
    fn prints_the_fewest_ranges() {
        assert_eq!(CpuList::from([8, 0, 1, 2, 3]).to_string(), "0-3,8");
        assert_eq!(CpuList::from([0, 1]).to_string(), "0-1");
        assert_eq!(CpuList::new().to_string(), "");
    }

    #[test]
    fn names_the_malformed_part() {
        let error = |text: &str| text.parse::<CpuList>().unwrap_err();
        for text in [
            "0-",
            "-3",
            "a",
            "0,,1",
            "+1",
            "1-2-3",
            "0x1",
            "99999999999999999999",
        ] {
            assert!(matches!(error(text), CpuListError::Part(_)), "{text}");
        }
        assert_eq!(error("0,3-1"), CpuListError::Backwards("3-1".into()));
        assert_eq!(error("0-4294967295"), CpuListError::TooLarge(4_294_967_295));
        assert_eq!(error("65536"), CpuListError::TooLarge(65_536));
        assert!("65535".parse::<CpuList>().is_ok());
    }

    proptest! {
        #[test]
        fn printing_and_parsing_is_the_identity(
            cpus in proptest::collection::btree_set(0..=CPU_MAX, 0..200)
        ) {
            let list: CpuList = cpus.iter().copied().collect();
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn ranges_cover_the_set_and_do_not_touch(
            cpus in proptest::collection::btree_set(0..300_u32, 0..200)
        ) {
            let list: CpuList = cpus.iter().copied().collect();
            let ranges = list.ranges();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end() + 1 < *pair[1].start()));
            let covered: CpuList = ranges.into_iter().flatten().collect();
            prop_assert_eq!(covered, list);
        }

        #[test]
        fn no_text_panics(text in "[0-9a-z, \\-\n]{0,20}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
