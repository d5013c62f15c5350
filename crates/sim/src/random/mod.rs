//! Portable random numbers and distributions: a seed gives the same numbers on every machine.
//!
//! The generator's sequence is fixed by its specification, and everything after it uses only
//! arithmetic that IEEE 754 defines to the bit, or the `libm` crate instead of the platform's.

mod distribution;
#[cfg(test)]
mod tests;

pub use distribution::Distribution;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// 2^64 divided by the golden ratio: the step of SplitMix64.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers: PCG XSL RR 128/64 (O'Neill 2014, "PCG: A Family of Simple Fast
/// Space-Efficient Statistically Good Algorithms for Random Number Generation").
///
/// A stream for each use keeps uses apart: what one draws does not shift what another gets, so that
/// two configurations meet the same arrivals and demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    generator: Pcg64,
}

impl Stream {
    /// The stream of a seed for a purpose, such as (replication, workload, what for).
    ///
    /// Different seeds or purposes give independent streams. All words and their number are mixed
    /// with the function of SplitMix64 (Steele, Lea, Flood 2014) into 64 bits, from which it makes
    /// the generator's start and increment.
    pub fn new(seed: u64, purpose: &[u64]) -> Stream {
        let mut hash = mix(seed.wrapping_add(GOLDEN));
        for &word in purpose.iter().chain([&(purpose.len() as u64)]) {
            // Mixed first, so that no simple change of one word undoes that of another.
            hash = mix(hash.wrapping_add(GOLDEN) ^ mix(word.wrapping_add(GOLDEN)));
        }
        let mut next = || {
            hash = hash.wrapping_add(GOLDEN);
            u128::from(mix(hash))
        };
        let start = next() << 64 | next();
        let increment = next() << 64 | next();
        Stream {
            generator: Pcg64::new(start, increment),
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in the open interval (0, 1): the odd multiples of 2^-53, all equally likely, so that
    /// neither the number nor 1 minus it is ever 0.
    pub fn uniform(&mut self) -> f64 {
        let odd = (self.next_u64() >> 12) * 2 + 1;
        odd as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`, without bias (Lemire 2019, "Fast Random Integer Generation in an
    /// Interval"); 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let surplus = n.wrapping_neg() % n; // 2^64 mod n
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }
}

/// The mixing function of SplitMix64: a bijection in which each input bit flips about half of the
/// output bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The standard normal quantile of a probability between 0 and 1, to about 16 digits; NaN outside.
///
/// Wichura 1988, "Algorithm AS 241: The Percentage Points of the Normal Distribution", PPND16.
fn normal_quantile(probability: f64) -> f64 {
    if !(probability > 0.0 && probability < 1.0) {
        return f64::NAN;
    }
    let q = probability - 0.5;
    if q.abs() <= 0.425 {
        return q * ratio(&CENTRE, 0.180625 - q * q);
    }
    let tail = if q < 0.0 {
        probability
    } else {
        1.0 - probability
    };
    let r = (-libm::log(tail)).sqrt();
    let size = if r <= 5.0 {
        ratio(&MIDDLE, r - 1.6)
    } else {
        ratio(&TAIL, r - 5.0)
    };
    if q < 0.0 { -size } else { size }
}

/// Coefficients of a numerator and a denominator, constant term first.
type Ratio = [[f64; 8]; 2];

fn ratio([numerator, denominator]: &Ratio, x: f64) -> f64 {
    let polynomial =
        |coefficients: &[f64; 8]| coefficients.iter().rev().fold(0.0, |y, c| y * x + c);
    polynomial(numerator) / polynomial(denominator)
}

#[expect(clippy::excessive_precision, reason = "as published")]
const CENTRE: Ratio = [
    [
        3.387_132_872_796_366_608_0e0,
        1.331_416_678_917_843_774_5e2,
        1.971_590_950_306_551_442_7e3,
        1.373_169_376_550_946_112_5e4,
        4.592_195_393_154_987_145_7e4,
        6.726_577_092_700_870_085_3e4,
        3.343_057_558_358_812_810_5e4,
        2.509_080_928_730_122_672_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091_125_2e1,
        6.871_870_074_920_579_083_0e2,
        5.394_196_021_424_751_107_7e3,
        2.121_379_430_158_659_586_7e4,
        3.930_789_580_009_271_061_0e4,
        2.872_908_573_572_194_267_4e4,
        5.226_495_278_852_854_561_0e3,
    ],
];

#[expect(clippy::excessive_precision, reason = "as published")]
const MIDDLE: Ratio = [
    [
        1.423_437_110_749_683_577_34e0,
        4.630_337_846_156_545_295_90e0,
        5.769_497_221_460_691_405_50e0,
        3.647_848_324_763_204_605_04e0,
        1.270_458_252_452_368_382_58e0,
        2.417_807_251_774_506_117_70e-1,
        2.272_384_498_926_918_458_33e-2,
        7.745_450_142_783_414_076_40e-4,
    ],
    [
        1.0,
        2.053_191_626_637_758_821_87e0,
        1.676_384_830_183_803_849_40e0,
        6.897_673_349_851_000_045_50e-1,
        1.481_039_764_274_800_745_90e-1,
        1.519_866_656_361_645_719_66e-2,
        5.475_938_084_995_344_946_00e-4,
        1.050_750_071_644_416_843_24e-9,
    ],
];

#[expect(clippy::excessive_precision, reason = "as published")]
const TAIL: Ratio = [
    [
        6.657_904_643_501_103_777_20e0,
        5.463_784_911_164_114_369_90e0,
        1.784_826_539_917_291_335_80e0,
        2.965_605_718_285_048_912_30e-1,
        2.653_218_952_657_612_309_30e-2,
        1.242_660_947_388_078_438_60e-3,
        2.711_555_568_743_487_578_15e-5,
        2.010_334_399_292_288_132_65e-7,
    ],
    [
        1.0,
        5.998_322_065_558_879_376_90e-1,
        1.369_298_809_227_358_053_10e-1,
        1.487_536_129_085_061_485_25e-2,
        7.868_691_311_456_132_591_00e-4,
        1.846_318_317_510_054_681_80e-5,
        1.421_511_758_316_445_888_70e-7,
        2.044_263_103_389_939_785_64e-15,
    ],
];
