//! Experiments on the queueing model instead of the simulator: what it predicts for some machines, and its picture.

use serde::Deserialize;
use sidelane_draw::{Axis, Chart, Point, Series};
use sidelane_model::{
    Crossover, Level, Machine, Model, Options, Result, SweepPoint, ThreadPerf, Utilization,
    crossovers, evaluate, sweep,
};

/// Loads at which levels are compared, from 0 to saturation.
const POINTS: usize = 240;

/// `[[model]]` as it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    pub name: String,
    cores: u32,
    thread_perf: Vec<f64>,
    model: Option<String>,
    iterations: Option<u32>,
}

/// A machine, and the model that is asked about it.
#[derive(Debug, Clone)]
pub(super) struct ModelCase {
    name: String,
    machine: Machine,
    options: Options,
}

/// What the model predicts.
#[derive(Debug, Clone)]
pub(super) struct Prediction {
    pub name: String,
    machine: Machine,
    options: Options,
    points: Vec<SweepPoint>,
    crossovers: Vec<Crossover>,
}

impl Described {
    /// # Errors
    /// What is wrong with it.
    pub fn case(self) -> std::result::Result<ModelCase, String> {
        let (name, named) = (self.name.clone(), self.name.clone());
        self.read(name)
            .map_err(|reason| format!("model {named:?}: {reason}"))
    }

    fn read(self, name: String) -> std::result::Result<ModelCase, String> {
        let known = |word: &String| Model::ALL.into_iter().find(|model| model.name() == word);
        let model = match &self.model {
            None => Model::Source,
            Some(word) => known(word).ok_or_else(|| format!("there is no model {word:?}"))?,
        };
        let options = Options::new(model);
        let text = |error: sidelane_model::Error| error.to_string();
        let speeds = ThreadPerf::new(self.thread_perf).map_err(text)?;
        Ok(ModelCase {
            name,
            machine: Machine::new(self.cores, speeds).map_err(text)?,
            options: match self.iterations {
                Some(iterations) => options.with_iterations(iterations).map_err(text)?,
                None => options,
            },
        })
    }
}

impl ModelCase {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the model.
    pub fn predict(&self) -> Result<Prediction> {
        Ok(Prediction {
            name: self.name.clone(),
            points: sweep(&self.machine, self.options, POINTS)?,
            crossovers: crossovers(&self.machine, self.options),
            machine: self.machine.clone(),
            options: self.options,
        })
    }
}

impl Prediction {
    /// A metric; none where it has no meaning.
    ///
    /// - `crossover_N`: the normalised utilisation from which a level above N is the best; 0 if
    ///   one always is.
    /// - `lowest_best_level`, `highest_best_level`: of all loads above 0.
    /// - `greatest_gain`: the greatest share by which the best level's response is below that of
    ///   the highest level.
    /// - `greatest_gain_at`: the normalised utilisation of that.
    pub fn value(&self, metric: &str) -> Option<f64> {
        let best = || {
            self.points
                .iter()
                .skip(1)
                .map(|point| point.evaluation.best)
        };
        match metric {
            "lowest_best_level" => best().min().map(|level| level as f64),
            "highest_best_level" => best().max().map(|level| level as f64),
            "greatest_gain" => self.greatest_gain().map(|(_, gain)| gain),
            "greatest_gain_at" => self.greatest_gain().map(|(at, _)| at),
            _ => self.crossover(metric.strip_prefix("crossover_")?.parse().ok()?),
        }
    }

    fn crossover(&self, level: usize) -> Option<f64> {
        let lowest = Utilization::new(self.points.get(1)?.utilization).ok()?;
        if evaluate(&self.machine, lowest, self.options).best > level {
            return Some(0.0);
        }
        let above = |crossover: &&Crossover| crossover.to > level;
        self.crossovers
            .iter()
            .find(above)
            .map(|found| found.utilization)
    }

    /// Normalised utilisation, and the gain there.
    fn greatest_gain(&self) -> Option<(f64, f64)> {
        let gain = |point: &SweepPoint| {
            let highest = point.evaluation.levels.last()?;
            let best = point.evaluation.best_level()?;
            let gain = 1.0 - best.response / highest.response;
            gain.is_finite().then_some((point.utilization, gain))
        };
        let gains = self.points.iter().filter_map(gain);
        gains.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Response by level and load.
    pub fn chart(&self) -> Chart {
        levels_chart(&self.machine, self.options, &self.points)
    }
}

/// Responses above this are not of interest, in units of the service time.
const HIGHEST: f64 = 4.0;

/// A line for the response of each level, and a dashed one for the service time in it.
pub fn levels_chart(machine: &Machine, options: Options, points: &[SweepPoint]) -> Chart {
    let speeds = machine.thread_perf().speeds().iter();
    let speeds: Vec<String> = speeds.map(|speed| speed.to_string()).collect();
    let cores = match machine.cores() {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let title = format!(
        "Response by SMT level: {cores}, threadPerf {}",
        speeds.join(", ")
    );
    let end = points.last().map_or(1.0, |point| point.utilization);
    let mut chart = Chart::new(
        title,
        Axis::linear("normalised utilisation").between(0.0, end),
        Axis::linear("mean time, in service times").between(1.0, HIGHEST),
    );
    chart.note = format!(
        "Model {}. Dashed: the time on a lane; between it and the line: the time in a queue. Unit: the service time alone on a core.",
        options.model().name()
    );
    for index in 0..machine.thread_perf().lanes() {
        let line = |of: &dyn Fn(&Level) -> f64| -> Vec<Point> {
            let at = |point: &SweepPoint| {
                let level = point.evaluation.levels.get(index);
                let level = level.filter(|level| level.stable)?;
                Some(Point::new(point.utilization, of(level)))
            };
            points.iter().filter_map(at).collect()
        };
        let (response, service) = (line(&|level| level.response), line(&|level| level.service));
        let name = format!("level {}", index + 1);
        let response = Series {
            colour: Some(index),
            ..Series::new(&name, response)
        };
        chart.series.push(response);
        let service = Series::new(format!("{name}, service"), service);
        chart.series.push(service.published(Some(index))); // drawn dashed
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_model::{ThreadPerf, sweep};

    #[test]
    fn each_level_has_two_lines_up_to_its_saturation() {
        let speeds = ThreadPerf::new(vec![1.0, 0.6]).unwrap();
        let machine = Machine::new(4, speeds).unwrap();
        let points = sweep(&machine, Options::default(), 120).unwrap();
        let chart = levels_chart(&machine, Options::default(), &points);
        let lengths: Vec<usize> = chart.series.iter().map(|s| s.points.len()).collect();
        assert_eq!(lengths, [100, 100, 120, 120]); // saturated at 1 and 1.2
        assert!(chart.series.iter().all(|s| s.points[0].y == 1.0));
        assert!(chart.draw().starts_with("<svg"));
    }
}
