//! The inverse of the normal distribution.

/// The standard normal quantile of a probability between 0 and 1, to about 16 digits; NaN outside.
///
/// Wichura 1988, "Algorithm AS 241: The Percentage Points of the Normal Distribution", PPND16.
pub(super) fn normal_quantile(probability: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::normal_quantile;

    #[test]
    fn the_published_check_values_come_out() {
        for (probability, quantile) in [
            (0.25, -0.674_489_750_196_081_7),
            (0.001, -3.090_232_306_167_813_5),
            (1e-20, -9.262_340_089_798_408),
        ] {
            let error: f64 = normal_quantile(probability) / quantile - 1.0;
            assert!(error.abs() < 1e-15, "{probability}: {error}");
        }
    }

    #[test]
    fn it_is_symmetric_and_joins_at_the_seams() {
        for i in 1..500 {
            let p = f64::from(i) / 1024.0;
            assert_eq!(normal_quantile(p), -normal_quantile(1.0 - p));
        }
        for seam in [0.075, (-25.0f64).exp()] {
            let (below, above) = (seam * (1.0 - 1e-9), seam * (1.0 + 1e-9));
            let step = normal_quantile(above) - normal_quantile(below);
            assert!(step > 0.0 && step < 1e-8, "{seam}: {step}");
        }
        assert!(
            [0.0, 1.0, -1.0, f64::NAN]
                .iter()
                .all(|&p| normal_quantile(p).is_nan())
        );
    }
}
