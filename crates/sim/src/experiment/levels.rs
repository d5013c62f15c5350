//! Response by SMT level and load, as in Figure 3 of the source of the queueing model.

use sidelane_draw::{Axis, Chart, Point, Series};
use sidelane_model::{Level, Machine, Options, SweepPoint};

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
