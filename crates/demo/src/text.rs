//! Text to compress: words of a made-up language, as uneven in frequency as a real one's.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

/// Different words.
const WORDS: usize = 8192;

/// At least `bytes` of text, always the same for the same seed.
pub fn generate(bytes: usize, seed: u64) -> String {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let words: Vec<String> = (0..WORDS).map(|_| word(&mut random)).collect();
    let mut text = String::with_capacity(bytes + 16);
    // Natural language: the n-th most frequent word has about 1/n of the first one's frequency.
    let Ok(ranks) = Zipf::new(WORDS as f64, 1.0) else {
        return text;
    };
    let mut in_sentence = 0;
    while text.len() < bytes {
        let rank = ranks.sample(&mut random) as usize;
        text.push_str(words.get(rank.saturating_sub(1)).map_or("", String::as_str));
        in_sentence += 1;
        if in_sentence >= 8 && random.random_bool(0.2) {
            text.push_str(".\n");
            in_sentence = 0;
        } else {
            text.push(' ');
        }
    }
    text
}

/// A word of one to five syllables.
fn word(random: &mut Pcg64Mcg) -> String {
    let mut word = String::new();
    for _ in 0..random.random_range(1..=5) {
        for letters in ["bcdfghklmnprstvw", "aeiou"] {
            let letters: Vec<char> = letters.chars().collect();
            let index = random.random_range(0..letters.len());
            word.extend(letters.get(index));
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_long_enough_and_reproducible() {
        let text = generate(100_000, 1);
        assert!((100_000..100_100).contains(&text.len()));
        assert_eq!(text, generate(100_000, 1));
        assert_ne!(text, generate(100_000, 2));
    }

    #[test]
    fn frequent_words_are_much_more_frequent() {
        let text = generate(200_000, 1);
        let mut counts = std::collections::HashMap::new();
        for word in text.split([' ', '.', '\n']).filter(|word| !word.is_empty()) {
            *counts.entry(word).or_insert(0usize) += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts.len() > 1000);
        assert!(
            counts[0] > 50 * counts[999],
            "{} {}",
            counts[0],
            counts[999]
        );
    }
}
