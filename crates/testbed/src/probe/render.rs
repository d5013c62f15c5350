//! The probe's report as text.

use super::{Ratio, Report};
use std::fmt;

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
    use crate::probe::tests::sample;

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
