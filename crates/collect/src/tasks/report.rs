//! The tables.

use super::{Monitored, Retention, Side, Task, VirtualMachine};
use sidelane_smt::snapshot::{Class, RateSource};
use sidelane_topology::printable;
use std::fmt::Write;

impl Monitored {
    /// For people: virtual machines, and the first tasks, so many.
    pub fn text(&self, rows: usize) -> String {
        let mut text = String::new();
        if !self.virtual_machines.is_empty() {
            text.push_str(MACHINES);
            for machine in &self.virtual_machines {
                text.push_str(&machine.line());
            }
            text.push('\n');
        }
        text.push_str(TASKS);
        for task in self.tasks.iter().take(rows) {
            text.push_str(&task.line());
        }
        let more = self.tasks.len().saturating_sub(rows);
        if more > 0 {
            let _ = writeln!(text, "and {more} more");
        }
        let assumed = match self.rate_source {
            RateSource::Assumed => ",\nby assumed speeds of lanes (--thread-perf, --calibration)",
            _ => "",
        };
        let _ = writeln!(text, "\nOver {:.1} s. {LEGEND}{assumed}", self.seconds);
        for note in &self.notes {
            let _ = writeln!(text, "{}", printable(note.as_bytes()));
        }
        text
    }
}

const LEGEND: &str = "rate: share of the time in which its lane was or could have been held for it;
I/O/s: such sleeps a second; progress: work, as lanes that run alone";

const MACHINES: &str = "machine of      vCPUs I/O-bound   rate  lanes progress  name
";

const TASKS: &str = "    tid process  vCPU class    side   rate  I/O/s  lanes progress  name
";

impl VirtualMachine {
    fn line(&self) -> String {
        format!(
            "{:>10} {:>10} {:>9} {:>6} {:>6.2} {:>8.2}  {}\n",
            self.process,
            self.vcpus,
            self.io_bound,
            (self.retention_rate).map_or("-".into(), |rate| format!("{rate:.2}")),
            self.lanes,
            self.progress,
            printable(self.name.as_bytes())
        )
    }
}

impl Task {
    fn line(&self) -> String {
        let [side, rate, frequency] = self
            .retention
            .map_or(["-", "-", "-"].map(Into::into), known);
        format!(
            "{:>7} {:>7} {:>5} {:8} {side:4} {rate:>6} {frequency:>6} {:>6.2} {:>8.2}  {}\n",
            self.tid,
            self.process,
            self.vcpu.map_or("-".into(), |number| number.to_string()),
            class(self.class),
            self.lanes,
            self.progress,
            printable(self.name.as_bytes())
        )
    }
}

fn known(retention: Retention) -> [String; 3] {
    let side = match retention.side {
        Side::Io => "I/O",
        Side::Cpu => "CPU",
    };
    [
        side.into(),
        format!("{:.2}", retention.rate),
        retention.frequency_per_s.to_string(),
    ]
}

fn class(class: Option<Class>) -> &'static str {
    class.map_or("-", Class::name)
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;

    #[test]
    fn no_name_reaches_the_terminal_as_it_is() {
        let mut seen = seen(true);
        let nasty = "\x1b[31m\n\u{202e}";
        seen.tasks[0].name = nasty.to_owned();
        seen.virtual_machines[0].name = nasty.to_owned();
        seen.notes = vec![nasty.to_owned()];
        let text = seen.text(9);
        assert_eq!(text.matches(r"\x1b[31m\x0a\u{202e}").count(), 3, "{text}");
        assert!(!text.contains(['\x1b', '\u{202e}']));
    }

    #[test]
    fn tables_fit_and_leave_out_what_is_beyond_the_rows() {
        let text = seen(true).text(3);
        assert!(text.lines().all(|line| line.chars().count() <= 100));
        assert!(text.contains("and 1 more\n"), "{text}");
        let machine = "        10          2         1   0.50   0.70     0.35  vcpu 0\n";
        assert!(text.contains(machine), "{text}");
        let task = "     11      10     0 normal   I/O    0.75    100   0.20     0.10  vcpu 0\n";
        assert!(text.contains(task), "{text}");
        let without = seen(false).text(9);
        assert!(without.contains("pair = true") && !without.contains("more\n"));
    }
}
