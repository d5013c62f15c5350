//! `sidelane testbed probe`: what the emulation delivers, beside what was asked for.

pub mod measured;

use crate::error::{Error, Result};
use crate::host::Disturbance;
use crate::machine::{Job, Machine};
use crate::spec::Spec;
use measured::{Clock, HandOver, Measured};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How long the guest may measure.
const LIMIT: Duration = Duration::from_secs(300);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How often each speed is measured, interleaved with the others.
    pub repetitions: u32,
    /// How many hand-overs of each kind are timed.
    pub wake_ups: u32,
}

/// A ratio that was measured several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The lower quartile.
    pub low: f64,
    /// The upper quartile.
    pub high: f64,
}

/// threadPerf with one number of busy lanes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadPerf {
    /// How many lanes of the core are busy.
    pub lanes: usize,
    /// What was asked for.
    pub asked: f64,
    /// What was measured, relative to one lane alone in the same repetition.
    pub delivered: Ratio,
}

/// What a machine delivers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Always true: these are no figures of real SMT.
    pub emulated_smt: bool,
    /// The guest's kernel.
    pub kernel: String,
    /// From the start of QEMU until commands could be run, s.
    pub boot_s: f64,
    /// Sockets.
    pub sockets: usize,
    /// Cores of each socket.
    pub cores: usize,
    /// How often each speed was measured.
    pub repetitions: usize,
    /// By the number of busy lanes of one core, nothing else running.
    pub thread_perf: Vec<ThreadPerf>,
    /// Speed with one lane of every core busy, relative to one lane of the machine.
    pub each_core: Ratio,
    /// Speed with all lanes of the machine busy, relative to one.
    pub all_lanes: Ratio,
    /// How long a lane waits for the host CPU that it shares.
    pub hand_overs: Vec<HandOver>,
    /// The guest's clock.
    pub clock: Clock,
    /// The share of this machine's CPUs that others used meanwhile, 0 to 1; much of it spoils the
    /// figures.
    pub others_share: f64,
}

/// Boots the machine and measures it.
pub fn run(spec: &Spec, effort: Effort) -> Result<Report> {
    let mut machine = Machine::boot(spec)?;
    let mut out = Vec::new();
    let (repetitions, wake_ups) = (effort.repetitions.to_string(), effort.wake_ups.to_string());
    let job = Job::new([
        "sidelane",
        "testbed",
        "guest-probe",
        &repetitions,
        &wake_ups,
    ]);
    let mut err = Vec::new();
    let watch = Disturbance::watch(&[std::process::id(), machine.pid()])?;
    let status = machine.run(job.timeout(LIMIT), &mut out, &mut err)?;
    let failed = |why: String| Error::Machine {
        reason: format!("the probe in the guest failed: {why}"),
        console: String::from_utf8_lossy(&err).into_owned(),
    };
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let measured: Measured = serde_json::from_slice(&out).map_err(|e| failed(e.to_string()))?;
    check_layout(spec, &measured).map_err(failed)?;
    let mut report = report(
        spec,
        &measured,
        machine.kernel().version.clone(),
        machine.boot_time(),
    );
    report.others_share = watch.share()?;
    machine.power_off()?;
    Ok(report)
}

/// The guest must see the cores and lanes that were asked for.
fn check_layout(spec: &Spec, measured: &Measured) -> std::result::Result<(), String> {
    let cores = &measured.layout.cores;
    let fits = cores.len() == spec.total_cores() && cores.iter().all(|c| c.len() == spec.lanes());
    let want = format!("{} cores of {} lanes", spec.total_cores(), spec.lanes());
    fits.then_some(())
        .ok_or(format!("its kernel sees the cores {cores:?}, not {want}"))
}

fn report(spec: &Spec, measured: &Measured, kernel: String, boot: Duration) -> Report {
    let alone = measured
        .speeds
        .first()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let asked = spec.thread_perf.iter().zip(&measured.speeds).enumerate();
    Report {
        emulated_smt: true,
        kernel,
        boot_s: boot.as_secs_f64(),
        sockets: spec.sockets,
        cores: spec.cores,
        repetitions: alone.len(),
        thread_perf: asked
            .map(|(index, (asked, speeds))| ThreadPerf {
                lanes: index + 1,
                asked: *asked,
                delivered: Ratio::of(speeds, alone),
            })
            .collect(),
        each_core: Ratio::of(&measured.each_core, alone),
        all_lanes: Ratio::of(&measured.all_lanes, alone),
        hand_overs: measured.hand_overs.clone(),
        clock: measured.clock.clone(),
        others_share: 0.0,
    }
}

impl Ratio {
    /// Of neighbouring measurements: what disturbs one disturbs the other.
    fn of(speeds: &[f64], alone: &[f64]) -> Ratio {
        let mut ratios: Vec<f64> = speeds
            .iter()
            .zip(alone)
            .map(|(speed, one)| speed / one)
            .collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (share * ratios.len() as f64).ceil() as usize;
            ratios.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
        };
        Ratio {
            median: at(0.5),
            low: at(0.25),
            high: at(0.75),
        }
    }
}

/// The share of the host's CPUs, %, from which others' work spoils the figures.
const DISTURBED: f64 = 5.0;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sockets, cores, lanes) = (self.sockets, self.cores, self.thread_perf.len());
        writeln!(
            f,
            "SMT is emulated: these figures are about sharing host CPUs, not about silicon."
        )?;
        writeln!(
            f,
            "{sockets} socket(s) × {cores} core(s) × {lanes} lane(s), kernel {}, \
             booted in {:.1} s\n",
            self.kernel, self.boot_s
        )?;
        self.speeds(f)?;
        self.hand_overs(f)?;
        let agree = match self.clock.backward_ns {
            0 => "never backwards between lanes".to_string(),
            ns => format!("backwards between lanes by up to {ns} ns"),
        };
        let others = self.others_share * 100.0;
        let verdict = if others > DISTURBED {
            ": too much, measure again"
        } else {
            ""
        };
        writeln!(
            f,
            "Others used {others:.0} % of this machine's CPUs meanwhile{verdict}"
        )?;
        writeln!(
            f,
            "Clock: {}, {:.0} ns a reading, {agree}",
            self.clock.source, self.clock.cost_ns
        )
    }
}

impl Report {
    fn speeds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Speed of a lane, relative to one alone (median of {}; half lie in the range)",
            self.repetitions
        )?;
        writeln!(
            f,
            "  {:<38} {:>7} {:>10}   range",
            "busy", "asked", "delivered"
        )?;
        for row in &self.thread_perf {
            let name = format!("{} of the lanes of one core", row.lanes);
            line(f, &name, Some(row.asked), row.delivered)?;
        }
        line(f, "one lane of each core", Some(1.0), self.each_core)?;
        let last = self.thread_perf.last().map(|row| row.asked);
        line(f, "all lanes of all cores", last, self.all_lanes)?;
        writeln!(f)
    }

    fn hand_overs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Hand-overs between lanes of one core, µs")?;
        writeln!(
            f,
            "  {:<46} {:>6} {:>8} {:>8} {:>8}",
            "situation", "times", "median", "p99", "longest"
        )?;
        for row in &self.hand_overs {
            writeln!(
                f,
                "  {:<46} {:>6} {:>8.0} {:>8.0} {:>8.0}",
                row.name, row.samples, row.p50_us, row.p99_us, row.max_us
            )?;
        }
        writeln!(f)
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, asked: Option<f64>, got: Ratio) -> fmt::Result {
    let asked = asked.map(|x| format!("{x:.3}")).unwrap_or_default();
    writeln!(
        f,
        "  {name:<38} {asked:>7} {:>10.3}   {:.3}…{:.3}",
        got.median, got.low, got.high
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use measured::Layout;

    pub(super) fn sample() -> (Spec, Report) {
        let mut spec = Spec::new("/usr/bin/sidelane").unwrap();
        spec.thread_perf = vec![1.0, 0.63];
        let hand_over = |name: &str| HandOver {
            name: name.into(),
            samples: 9,
            p50_us: 120.4,
            p99_us: 900.0,
            max_us: 1200.0,
        };
        let measured = Measured {
            layout: Layout {
                cores: vec![vec![0, 1], vec![2, 3]],
            },
            // The second repetition was disturbed as a whole.
            speeds: vec![vec![100.0, 50.0, 100.0], vec![63.0, 31.5, 60.0]],
            each_core: vec![99.0, 50.0, 98.0],
            all_lanes: vec![61.0, 31.0, 62.0],
            hand_overs: vec![hand_over("timer wake-up, core idle")],
            clock: Clock {
                source: "tsc".into(),
                cost_ns: 187.4,
                backward_ns: 0,
            },
        };
        check_layout(&spec, &measured).unwrap();
        let report = report(
            &spec,
            &measured,
            "7.3.4".into(),
            Duration::from_millis(4200),
        );
        (spec, report)
    }

    #[test]
    fn speeds_are_related_within_a_repetition() {
        let (_, report) = sample();
        let two = &report.thread_perf[1];
        assert_eq!(
            (two.lanes, two.asked, two.delivered.median),
            (2, 0.63, 0.63)
        );
        assert_eq!((two.delivered.low, two.delivered.high), (0.6, 0.63));
        assert_eq!(report.thread_perf[0].delivered.median, 1.0);
        assert_eq!(report.each_core.median, 0.99);
    }

    #[test]
    fn a_guest_that_sees_other_cores_is_an_error() {
        let (mut spec, _) = sample();
        spec.cores = 4;
        let measured = Measured {
            layout: Layout {
                cores: vec![vec![0], vec![1]],
            },
            speeds: Vec::new(),
            each_core: Vec::new(),
            all_lanes: Vec::new(),
            hand_overs: Vec::new(),
            clock: Clock {
                source: String::new(),
                cost_ns: 0.0,
                backward_ns: 0,
            },
        };
        assert!(
            check_layout(&spec, &measured)
                .unwrap_err()
                .contains("not 4 cores of 2 lanes")
        );
    }

    #[test]
    fn json_is_described_and_says_that_smt_is_emulated() {
        let kind = sidelane_interface::Kind::TestbedProbe;
        sidelane_interface::check::result(kind, &sample().1).unwrap();
        let json = serde_json::to_value(sample().1).unwrap();
        assert_eq!(json["emulated_smt"], true);
        assert_eq!(json["thread_perf"][1]["delivered"]["median"], 0.63);
    }

    #[test]
    fn the_table_shows_asked_beside_delivered_and_fits() {
        let text = sample().1.to_string();
        assert!(text.starts_with("SMT is emulated"));
        assert!(
            text.contains(
                "  2 of the lanes of one core               0.630      0.630   0.600…0.630"
            )
        );
        assert!(text.contains("Clock: tsc, 187 ns a reading, never backwards"));
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}
