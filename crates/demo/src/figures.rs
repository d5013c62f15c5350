//! From runs to figures, and the document that they stand in: what all experiments do alike.

use crate::error::{Error, Result};
use crate::lines::MachineFacts;
use crate::reference;
use crate::table::Table;
use serde::{Deserialize, Serialize, Serializer};
use sidelane_smt::latency::Spread;
use std::ops::{Deref, DerefMut};

/// One setup, measured in one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run<S, R> {
    /// Which.
    pub setup: S,
    /// From 0.
    pub repetition: u32,
    /// What was found.
    #[serde(flatten)]
    pub found: R,
}

/// All runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Runs<S, R>(pub Vec<Run<S, R>>);

impl<S: Copy + PartialEq, R> Runs<S, R> {
    /// # Errors
    /// There are not so many.
    pub fn complete(runs: Vec<Run<S, R>>, count: usize) -> Result<Runs<S, R>> {
        match runs.len() == count {
            true => Ok(Runs(runs)),
            false => Err(Error::Incomplete(format!("{} runs of {count}", runs.len()))),
        }
    }

    /// Those of a setup.
    pub fn of(&self, setup: S) -> impl Iterator<Item = &Run<S, R>> {
        self.0.iter().filter(move |run| run.setup == setup)
    }

    /// A setup's run in one repetition.
    pub fn at(&self, setup: S, repetition: u32) -> Option<&Run<S, R>> {
        self.of(setup).find(|run| run.repetition == repetition)
    }

    /// A figure of a setup over the repetitions. None: one of them lacks it, or it is no finite number.
    pub fn spread<V: Into<Option<f64>>>(
        &self,
        setup: S,
        value: impl Fn(&R) -> V,
    ) -> Option<Spread> {
        spread_of(self.of(setup).map(|run| value(&run.found)))
    }

    /// The same as a multiple of what it is under another setup in the same repetition.
    pub fn ratio(&self, setup: S, to: S, value: impl Fn(&R) -> f64) -> Option<Spread> {
        spread_of(self.of(setup).map(|run| {
            let other = self.at(to, run.repetition)?;
            Some(value(&run.found) / value(&other.found))
        }))
    }
}

/// Of known and finite numbers. None: one is not, or there are none.
pub fn spread_of<V: Into<Option<f64>>>(values: impl Iterator<Item = V>) -> Option<Spread> {
    let known = |value: V| value.into().filter(|value| value.is_finite());
    Spread::of(&values.map(known).collect::<Option<Vec<f64>>>()?)
}

/// The column of a figure that the table has not.
pub const HIDDEN: (&str, usize, usize) = ("", 0, 0);

type Value<S, R> = Box<dyn Fn(&Runs<S, R>, &Run<S, R>) -> Option<f64>>;

/// A figure of each run, of which the median and the range over the repetitions are shown: its name in JSON, which
/// ends with the unit, and its column.
pub struct Column<S, R> {
    name: &'static str,
    title: &'static str,
    width: usize,
    digits: usize,
    value: Value<S, R>,
}

impl<S: Copy + PartialEq + 'static, R: 'static> Column<S, R> {
    /// A figure that a run has by itself; its column has a title, a width and digits after the point.
    pub fn new<V: Into<Option<f64>>>(
        name: &'static str,
        (title, width, digits): (&'static str, usize, usize),
        value: impl Fn(&R) -> V + 'static,
    ) -> Column<S, R> {
        Column::among(name, (title, width, digits), move |_, run| {
            value(&run.found).into()
        })
    }

    /// The same as a multiple of what it is under another setup in the same repetition.
    pub fn ratio(
        name: &'static str,
        (title, width, digits): (&'static str, usize, usize),
        to: S,
        value: impl Fn(&R) -> f64 + 'static,
    ) -> Column<S, R> {
        Column::among(name, (title, width, digits), move |runs, run| {
            let other = runs.at(to, run.repetition)?;
            Some(value(&run.found) / value(&other.found))
        })
    }

    /// A figure that needs the other runs. None: this setup has no such figure.
    pub fn among(
        name: &'static str,
        (title, width, digits): (&'static str, usize, usize),
        value: impl Fn(&Runs<S, R>, &Run<S, R>) -> Option<f64> + 'static,
    ) -> Column<S, R> {
        let value = Box::new(value);
        Column {
            name,
            title,
            width,
            digits,
            value,
        }
    }

    /// Over the repetitions of a setup; the inner one is none if some repetition has no such figure.
    fn spread(&self, runs: &Runs<S, R>, setup: S) -> Option<Option<Spread>> {
        let values = runs.of(setup).map(|run| (self.value)(runs, run));
        match values.collect::<Option<Vec<f64>>>() {
            None => Some(None),
            Some(values) => spread_of(values.into_iter()).map(Some),
        }
    }
}

/// A setup's figures, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row<S> {
    /// Which.
    pub setup: S,
    /// One for each column.
    #[serde(flatten)]
    pub figures: Spreads,
}

/// Figures by name, in the order of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Spreads(Vec<(&'static str, Option<Spread>)>);

impl Spreads {
    /// The figure of that name. None: there is none.
    pub fn get(&self, name: &str) -> Option<Spread> {
        let figure = self.0.iter().find(|(own, _)| *own == name);
        figure.and_then(|(_, spread)| *spread)
    }
}

impl Serialize for Spreads {
    fn serialize<T: Serializer>(&self, serializer: T) -> std::result::Result<T::Ok, T::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl<S: Copy + PartialEq + 'static, R: 'static> Runs<S, R> {
    /// The figures of a setup. None: one is not a number.
    pub fn figures(&self, setup: S, columns: &[Column<S, R>]) -> Option<Spreads> {
        let figure = |column: &Column<S, R>| Some((column.name, column.spread(self, setup)?));
        columns
            .iter()
            .map(figure)
            .collect::<Option<_>>()
            .map(Spreads)
    }

    /// The rows of setups. None: a figure is not a number.
    pub fn rows(&self, setups: &[S], columns: &[Column<S, R>]) -> Option<Vec<Row<S>>> {
        let row = |&setup: &S| {
            let figures = self.figures(setup, columns)?;
            Some(Row { setup, figures })
        };
        setups.iter().map(row).collect()
    }
}

impl<'a, T> Table<'a, T> {
    /// Adds all columns but those that are hidden; `figures` are those of a row.
    pub fn columns<S, R>(
        self,
        columns: &[Column<S, R>],
        figures: impl Fn(&T) -> &Spreads,
    ) -> Table<'a, T> {
        let shown = columns.iter().filter(|column| !column.title.is_empty());
        shown.fold(self, |table, column| {
            let figure = |row: &T| figures(row).get(column.name);
            table.spread(column.title, column.width, column.digits, figure)
        })
    }
}

/// ns as ms.
pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// What the driver knows of the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Kernel and cores.
    pub machine: MachineFacts,
    /// Speed of a core, measured in between; units of work a second.
    pub speeds: Vec<f64>,
    /// Speed of a lane when 1, 2, ... lanes of its core run, as asked of the emulation; none: real SMT.
    pub emulated: Option<Vec<f64>>,
}

impl Facts {
    /// Lanes of the widest core.
    pub fn lanes(&self) -> usize {
        self.machine.cores.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// A document with these facts and with figures.
    ///
    /// # Errors
    /// There are no figures, since one is not a number, or no speed.
    pub fn document<F>(self, figures: Option<F>) -> Result<Document<F>> {
        let incomplete = |what: &str| Error::Incomplete(what.into());
        let MachineFacts { kernel, cores } = self.machine;
        Ok(Document {
            emulated_smt: self.emulated.is_some(),
            measured: Measured {
                kernel,
                cores,
                units_per_core_s: spread_of(self.speeds.into_iter())
                    .ok_or_else(|| incomplete("no speed"))?,
            },
            figures: figures.ok_or_else(|| incomplete("a figure is not a number"))?,
        })
    }
}

/// What is printed as JSON: the machine, and an experiment's figures beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document<F> {
    /// Whether SMT was emulated.
    pub emulated_smt: bool,
    /// The machine.
    #[serde(flatten)]
    pub measured: Measured,
    /// What was found.
    #[serde(flatten)]
    pub figures: F,
}

/// The machine, as the results tell it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Release of the kernel.
    pub kernel: String,
    /// Lanes of each core, CPU numbers.
    pub cores: Vec<Vec<u32>>,
    /// Speed of a core over the whole measurement, units of work a second.
    pub units_per_core_s: Spread,
}

impl<F> Document<F> {
    /// The page for people: the machine in words, what an experiment says, and a warning if the machine's
    /// speed varied a lot.
    pub(crate) fn page(&self, text: &str) -> String {
        let smt = match self.emulated_smt {
            true => ", emulated SMT",
            false => "",
        };
        let Measured {
            kernel,
            cores,
            units_per_core_s,
        } = &self.measured;
        let warning = reference::warning(*units_per_core_s);
        format!("Linux {kernel}, lanes of the cores: {cores:?}{smt}\n{text}{warning}")
    }
}

/// Figures are fields of the document, as they are in JSON.
impl<F> Deref for Document<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.figures
    }
}

impl<F> DerefMut for Document<F> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_a_repetition() {
        let run = |setup, repetition, found| Run {
            setup,
            repetition,
            found,
        };
        // the machine is half as fast in the second repetition
        let runs = vec![
            run('a', 0, 2.0),
            run('b', 0, 6.0),
            run('b', 1, 3.0),
            run('a', 1, 1.0),
        ];
        assert!(Runs::complete(runs.clone(), 5).is_err());
        let mut runs = Runs::complete(runs, 4).unwrap();
        let of = |spread: Option<Spread>| spread.map(|s| (s.min, s.median, s.max));
        assert_eq!(of(runs.spread('b', |found| *found)), Some((3.0, 4.5, 6.0)));
        assert_eq!(
            of(runs.ratio('b', 'a', |found| *found)),
            Some((3.0, 3.0, 3.0))
        );
        assert_eq!(runs.spread('c', |found| *found), None);
        assert_eq!(
            runs.spread('a', |found| (*found > 1.0).then_some(*found)),
            None
        );
        runs.0[0].found = 0.0;
        assert_eq!(
            runs.ratio('b', 'a', |found| *found),
            None,
            "a division by 0"
        );
    }

    #[test]
    fn columns_are_figures_in_json_and_in_the_table() {
        let run = |setup, repetition, found| Run {
            setup,
            repetition,
            found,
        };
        let mut runs = Runs(vec![
            run('a', 0, 2.0),
            run('b', 0, 6.0),
            run('b', 1, 3.0),
            run('a', 1, 1.0),
        ]);
        let columns = [
            Column::new("work_per_s", ("work", 20, 1), |found| *found),
            Column::ratio("over_a", ("/ a", 0, 2), 'a', |found| *found),
            Column::among("idle_s", ("idle", 0, 1), |_, run| {
                (run.setup == 'b').then_some(run.found)
            }),
        ];
        let rows = runs.rows(&['a', 'b'], &columns).unwrap();
        let json = serde_json::to_string(&rows[1]).unwrap();
        assert_eq!(
            json,
            r#"{"setup":"b","work_per_s":{"min":3.0,"median":4.5,"max":6.0},"over_a":{"min":3.0,"median":3.0,"max":3.0},"idle_s":{"min":3.0,"median":4.5,"max":6.0}}"#
        );
        assert_eq!(rows[0].figures.get("idle_s"), None);
        let table = Table::of(&rows).left("", 4, |row| row.setup.to_string());
        let table = table.columns(&columns, |row| &row.figures).to_string();
        let lines = [
            "    work                / a                idle",
            "a   1.5 (1.0 … 2.0)     1.00 (1.00 … 1.00) -",
            "b   4.5 (3.0 … 6.0)     3.00 (3.00 … 3.00) 4.5 (3.0 … 6.0)",
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), lines);
        runs.0[0].found = 0.0;
        assert_eq!(runs.rows(&['b'], &columns), None, "a division by 0");
    }

    #[test]
    fn the_machine_stands_beside_the_figures() {
        #[derive(Debug, Serialize)]
        struct Figures {
            load: f64,
        }
        let facts = Facts {
            machine: MachineFacts {
                kernel: "7.0".into(),
                cores: vec![vec![0, 2], vec![1]],
            },
            speeds: vec![1.0, 2.0],
            emulated: Some(vec![1.0, 0.5]),
        };
        assert_eq!(facts.lanes(), 2);
        let document = facts.clone().document(Some(Figures { load: 0.5 })).unwrap();
        let json = r#"{"emulated_smt":true,"kernel":"7.0","cores":[[0,2],[1]],"units_per_core_s":{"min":1.0,"median":1.5,"max":2.0},"load":0.5}"#;
        assert_eq!(serde_json::to_string(&document).unwrap(), json);
        let page = "Linux 7.0, lanes of the cores: [[0, 2], [1]], emulated SMT\ntext\n";
        assert_eq!(document.page("text\n"), page);
        assert!(facts.clone().document(None::<Figures>).is_err());
        let still = Facts {
            speeds: Vec::new(),
            ..facts
        };
        assert!(still.document(Some(Figures { load: 0.5 })).is_err());
    }
}
