//! A calibration as text.

use super::calibration::{Calibration, Confidence, Group};
use std::fmt;

/// Width of the column of names.
const NAME: usize = 20;

/// With more lanes than this, numbers have two decimals, to fit.
const NARROW: usize = 12;

/// Width of a line.
const LINE: usize = 100;

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.lanes() > NARROW { 2 } else { 4 };
        let speeds = self.thread_perf.iter().map(|s| rounded(*s, decimals));
        let speeds: Vec<String> = speeds.collect();
        writeln!(f, "threadPerf  {}", speeds.join(","))?;
        let machine = &self.machine;
        let what = format!(
            "{}; {} cores, {} lanes online; kernel {}",
            machine.model, machine.cores, machine.lanes, machine.kernel
        );
        writeln!(f, "machine     {}", shortened(&what, LINE - 12))?;
        for group in &self.groups {
            writeln!(f)?;
            if self.groups.len() > 1 {
                writeln!(
                    f,
                    "Cores of kind {}, capacity {}",
                    group.tier, group.capacity
                )?;
            }
            self.densities(f, group)?;
            work(f, group)?;
        }
        writeln!(f)?;
        for note in &self.notes {
            writeln!(f, "Note: {}", wrapped(note))?;
        }
        match self.confidence {
            Confidence::High => writeln!(f, "Confidence: high"),
            Confidence::Low => writeln!(f, "Confidence: low"),
        }
    }
}

impl Calibration {
    fn densities(&self, f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
        let cores = group.cores.len();
        writeln!(
            f,
            "Speed of a lane, relative to one alone: median of {} ({cores} core{} × {} runs of {:.0} ms)",
            cores * self.method.repetitions as usize,
            if cores == 1 { "" } else { "s" },
            self.method.repetitions,
            self.method.duration_ms
        )?;
        writeln!(
            f,
            "  {:<NAME$} {:>8}   {:<13} core's work  threadPerf",
            "lanes running", "measured", "range"
        )?;
        for (at, valid) in group.densities.iter().zip(&group.thread_perf) {
            let range = format!("{:.3}…{:.3}", at.measured.min, at.measured.max);
            writeln!(
                f,
                "  {:<NAME$} {:>8.3}   {range:<13} {:>11.3}  {}",
                at.lanes,
                at.measured.median,
                at.lanes as f64 * valid,
                rounded(*valid, 4)
            )?;
        }
        Ok(())
    }
}

/// By kind of work, a column for each density from two lanes on.
fn work(f: &mut fmt::Formatter<'_>, group: &Group) -> fmt::Result {
    let narrow = group.lanes > NARROW;
    let (width, decimals) = if narrow { (5, 2) } else { (6, 3) };
    let heads: String = (2..=group.lanes).map(|n| format!("{n:>width$}")).collect();
    writeln!(f, "\n  {:<NAME$}{heads}", "work, lanes running")?;
    for work in &group.work {
        let speeds = work.speeds.iter().skip(1);
        let columns: String = speeds
            .map(|speed| format!("{:>width$.decimals$}", speed.median))
            .collect();
        writeln!(f, "  {:<NAME$}{columns}", shortened(&work.name, NAME - 1))?;
    }
    Ok(())
}

/// So many decimals at most; 1 for 1.
fn rounded(speed: f64, decimals: usize) -> String {
    let text = format!("{speed:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Breaks a note between words.
fn wrapped(note: &str) -> String {
    let (mut text, mut width) = (String::new(), "Note: ".len());
    for word in note.split(' ') {
        let length = word.chars().count() + 1;
        if width + length > LINE && !text.is_empty() {
            text.push_str("\n      ");
            width = "Note: ".len();
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
        width += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::calibration::{Density, Machine, Method, WorkSpeeds};
    use super::*;
    use sidelane_smt::latency::Spread;

    fn spread(median: f64) -> Spread {
        Spread {
            min: median - 0.01,
            median,
            max: median + 0.01,
        }
    }

    fn sample(lanes: usize) -> Calibration {
        let speeds: Vec<f64> = (1..=lanes).map(|n| 1.0 / (n as f64).sqrt()).collect();
        let density = |(lanes, speed): (usize, &f64)| Density {
            lanes,
            measured: spread(*speed),
            clipped: false,
            clear: true,
        };
        Calibration {
            version: 1,
            thread_perf: speeds.clone(),
            confidence: Confidence::Low,
            notes: vec!["word ".repeat(40).trim().to_owned()],
            machine: Machine {
                model: "A processor with a long name".repeat(5),
                ..Machine::default()
            },
            method: Method {
                duration_ms: 200.0,
                repetitions: 5,
                command: None,
            },
            groups: vec![Group {
                tier: 0,
                capacity: 1024,
                lanes,
                cores: vec![0, 4],
                thread_perf: speeds.clone(),
                densities: (1..).zip(&speeds).map(density).collect(),
                work: vec![WorkSpeeds {
                    name: "a command with many arguments".into(),
                    speeds: speeds.iter().map(|s| spread(*s)).collect(),
                }],
                footprint: None,
                runs: 20,
                disturbed_runs: 0,
                taken_max: 0.0,
            }],
        }
    }

    #[test]
    fn it_fits_with_any_number_of_lanes_and_its_json_is_described() {
        for lanes in [2, 4, 8, 12, 16] {
            let kind = sidelane_interface::Kind::Calibrate;
            sidelane_interface::check::result(kind, &sample(lanes)).unwrap();
            let text = sample(lanes).to_string();
            assert!(
                text.lines().all(|line| line.chars().count() <= LINE),
                "{text}"
            );
        }
    }

    #[test]
    fn the_result_comes_first_as_it_is_handed_on() {
        let text = sample(4).to_string();
        assert!(
            text.starts_with("threadPerf  1,0.7071,0.5774,0.5\n"),
            "{text}"
        );
        assert!(
            text.contains("median of 10 (2 cores × 5 runs of 200 ms)"),
            "{text}"
        );
        assert!(
            text.contains("  a command with man…  0.707 0.577 0.500"),
            "{text}"
        );
        assert!(text.ends_with("Confidence: low\n"), "{text}");
    }
}
