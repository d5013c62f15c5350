//! Sets of lanes, one bit each, laid out like [`cpu_bits`](crate::task::cpu_bits).

/// A set of lanes by CPU number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LaneSet(Box<[u64]>);

impl LaneSet {
    pub fn new(nr_lanes: usize) -> LaneSet {
        LaneSet(vec![0; nr_lanes.div_ceil(64)].into_boxed_slice())
    }

    pub fn set(&mut self, cpu: u32, member: bool) {
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            let bit = 1 << (cpu % 64);
            *word = if member { *word | bit } else { *word & !bit };
        }
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.word(cpu as usize / 64) >> (cpu % 64) & 1 == 1
    }

    /// How many words it has.
    pub fn words(&self) -> usize {
        self.0.len()
    }

    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub fn intersects(&self, other: &LaneSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.words(), |index| self.word(index))
    }

    /// The lanes that both have.
    pub fn common<'a>(&'a self, other: &'a LaneSet) -> impl Iterator<Item = u32> + 'a {
        members(self.words(), |index| self.word(index) & other.word(index))
    }
}

/// The lanes whose bits are set in these words, in order.
pub(super) fn members(words: usize, word: impl Fn(usize) -> u64) -> impl Iterator<Item = u32> {
    (0..words).flat_map(move |index| {
        let mut bits = word(index);
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(index as u32 * 64 + bit)
        })
    })
}

/// The first lane from `start` on whose bit is set in these words, going round.
pub(super) fn first_from(start: u32, words: usize, word: impl Fn(usize) -> u64) -> Option<u32> {
    if words == 0 {
        return None;
    }
    let start = if (start as usize) < words * 64 {
        start
    } else {
        0
    };
    let (first, from_start) = (start as usize / 64, u64::MAX << (start % 64));
    // The word with the start is looked at twice: from there on, and at last up to there.
    for step in 0..=words {
        let index = (first + step) % words;
        let mask = match step {
            0 => from_start,
            _ if step == words => !from_start,
            _ => u64::MAX,
        };
        let bits = word(index) & mask;
        if bits != 0 {
            return Some(index as u32 * 64 + bits.trailing_zeros());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_goes_round() {
        let mut set = LaneSet::new(130);
        assert_eq!(first_from(5, set.words(), |i| set.word(i)), None);
        for cpu in [3, 70, 129] {
            set.set(cpu, true);
        }
        let from = |set: &LaneSet, start| first_from(start, set.words(), |i| set.word(i));
        let found = [0, 3, 4, 70, 71, 129, 130, 500].map(|start| from(&set, start));
        let wanted = [3, 3, 70, 70, 129, 129, 3, 3].map(Some);
        assert_eq!(found, wanted);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 70, 129]);
        set.set(129, false);
        assert_eq!(from(&set, 100), Some(3));
        assert_eq!(
            (set.len(), set.contains(70), set.contains(129)),
            (2, true, false)
        );
    }
}
