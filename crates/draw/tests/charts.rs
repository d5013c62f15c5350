//! Charts: what is drawn, and what is odd.
#![allow(clippy::unwrap_used, missing_docs)]

use roxmltree::Document;
use sidelane_draw::*;

/// Writes what a person may want to look at, if a folder is named.
fn keep_sample(name: &str, text: &str) {
    if let Some(folder) = std::env::var_os("SAMPLES") {
        std::fs::write(std::path::Path::new(&folder).join(name), text).unwrap();
    }
}

fn count(svg: &str, tag: &str) -> usize {
    let document = Document::parse(svg).unwrap();
    document
        .descendants()
        .filter(|node| node.has_tag_name(tag))
        .count()
}

fn texts(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .filter_map(|node| node.text().map(String::from))
        .collect()
}

fn points(values: &[(f64, f64, f64)]) -> Vec<Point> {
    let point = |&(x, y, half_width): &(f64, f64, f64)| Point::new(x, y).plus_minus(half_width);
    values.iter().map(point).collect()
}

/// The reproduction of a published line, two more ways, and a service level.
fn latencies(y: Axis) -> Chart {
    let mut chart = Chart::new(
        "Tail latency of <critical> jobs & load",
        Axis::linear("load"),
        y,
    );
    let measured = points(&[
        (0.2, 6.1, 0.3),
        (0.4, 7.9, 0.6),
        (0.6, 11.7, 1.1),
        (0.8, 26.0, 4.0),
    ]);
    let others = points(&[
        (0.2, 8.0, 0.5),
        (0.4, 12.0, 2.0),
        (0.6, 22.0, 3.0),
        (0.8, 61.0, 9.0),
    ]);
    let published = [(0.2, 6.0), (0.4, 8.2), (0.6, 12.5), (0.8, 24.0)];
    let published = published.map(|(x, y)| Point::new(x, y)).to_vec();
    chart
        .series
        .push(Series::new("scheduler, borrowing", measured));
    chart.series.push(Series {
        spread: Spread::Band,
        ..Series::new("kernel default with a name that is rather long", others)
    });
    chart
        .series
        .push(Series::new("published", published).published(Some(0)));
    chart.series.push(Series {
        style: Style::Points,
        ..Series::new("one point", vec![Point::new(0.5, 30.0)])
    });
    chart.rules.push(Rule {
        y: 20.0,
        label: "SLO 20 ms".into(),
    });
    chart.note = "Simulated: ratios between configurations, with 95 % intervals of 10 \
                  replications. Interference is assumed, as the scenario says."
        .into();
    chart
}

fn assert_is_sound(svg: &str) {
    assert!(Document::parse(svg).is_ok(), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn a_chart_shows_all_it_is_given() {
    let svg = latencies(Axis::linear("p99, ms")).draw();
    keep_sample("chart_linear.svg", &svg);
    keep_sample("chart_log.svg", &latencies(Axis::log("p99, ms")).draw());
    assert_is_sound(&svg);
    // A marker with a tip for each point.
    assert_eq!(count(&svg, "title"), 13);
    assert!(
        svg.contains("<title>scheduler, borrowing\n0.4: 7.9 ± 0.6</title>"),
        "{svg}"
    );
    let texts = texts(&svg);
    for words in [
        "SLO 20 ms",
        "published",
        "Tail latency of <critical> jobs & load",
        "load",
    ] {
        assert!(texts.iter().any(|text| text == words), "{words}: {texts:?}");
    }
    assert_eq!(svg, latencies(Axis::linear("p99, ms")).draw());
}

#[test]
fn what_has_no_place_leaves_a_gap() {
    let draw = |y: Axis| {
        let mut chart = Chart::new("", Axis::linear(""), y);
        let values = [1.0, 2.0, f64::NAN, 3.0, 4.0, 0.0, 5.0, f64::INFINITY];
        let point = |(x, &y): (usize, &f64)| Point::new(x as f64, y).plus_minus(f64::NAN);
        let points = values.iter().enumerate().map(point).collect();
        chart.series.push(Series::new("gaps", points));
        chart.draw()
    };
    let lines = |svg: &str| svg.matches("stroke-linejoin").count();
    let (linear, log) = (draw(Axis::linear("")), draw(Axis::log("")));
    assert_is_sound(&linear);
    assert_is_sound(&log);
    assert_eq!((lines(&linear), count(&linear, "title")), (2, 6));
    // The last point stands alone there: a marker without a line.
    assert_eq!((lines(&log), count(&log, "title")), (2, 5));
}

#[test]
fn odd_data_is_drawn_too() {
    let odd: [&[(f64, f64, f64)]; 6] = [
        &[],
        &[(1.0, 1.0, 0.0)],
        &[(f64::NAN, 1.0, 1.0)],
        &[(0.0, 0.0, 0.0), (0.0, 0.0, f64::INFINITY)],
        &[(-1e300, 1e300, 1e300), (1e300, -1e300, 1e308)],
        &[(f64::MAX, f64::MIN, 1.0)],
    ];
    for values in odd {
        for (style, spread) in [
            (Style::Line, Spread::Bars),
            (Style::Steps, Spread::Band),
            (Style::Points, Spread::Band),
        ] {
            for axis in [
                Axis::linear("y"),
                Axis::log("y"),
                Axis::linear("y").between(0.1, 0.2),
            ] {
                let mut chart = Chart::new("odd", axis.clone(), axis);
                chart.rules.push(Rule {
                    y: f64::NAN,
                    label: "none".into(),
                });
                chart.series.push(Series {
                    style,
                    spread,
                    ..Series::new("\u{2}", points(values))
                });
                assert_is_sound(&chart.draw());
            }
        }
    }
    assert_is_sound(&Chart::default().draw());
    assert_is_sound(&BarChart::default().draw());
}

#[test]
fn long_series_stay_small() {
    let samples: Vec<f64> = (1..=100_000).map(f64::from).collect();
    let mut chart = Chart::new(
        "Latency",
        Axis::log("latency, ns"),
        Axis::log("share above"),
    );
    chart.series.push(Series::tail("tail", &samples));
    let svg = chart.draw();
    keep_sample("tail.svg", &svg);
    assert!(svg.len() < 100_000, "{}", svg.len());
    let mut chart = Chart::new(
        "Latency",
        Axis::linear("latency, ms"),
        Axis::linear("share"),
    );
    let some: Vec<f64> = (0..40).map(|n| f64::from(n * n % 97) / 4.0).collect();
    let more: Vec<f64> = (0..40).map(|n| f64::from(n * n % 61) / 2.0).collect();
    chart.series.push(Series::cdf("one way", &some));
    chart
        .series
        .push(Series::cdf("as published", &more).published(None));
    keep_sample("cdf.svg", &chart.draw());
}

#[test]
fn bars_stand_in_groups() {
    let bars = |values: &[f64]| {
        let bar = |&value: &f64| Bar {
            value,
            half_width: value / 12.0,
        };
        values.iter().map(bar).collect()
    };
    let chart = |y: Axis| BarChart {
        title: "Throughput of batch beside critical work".into(),
        groups_label: "workload".into(),
        groups: [
            "web",
            "key-value",
            "transcoding with a long name",
            "<build>",
        ]
        .map(String::from)
        .into(),
        y,
        series: vec![
            BarSeries {
                name: "this scheduler".into(),
                bars: bars(&[0.82, 0.61, 1.2, f64::NAN]),
                ..BarSeries::default()
            },
            BarSeries {
                name: "published".into(),
                bars: [0.8, 0.66, 1.1, 0.1].map(Bar::new).into(),
                published: true,
                colour: Some(0),
            },
            BarSeries {
                name: "kernel default".into(),
                bars: bars(&[0.5, -0.1, 0.9]),
                ..BarSeries::default()
            },
        ],
        rules: vec![Rule {
            y: 1.0,
            label: "alone".into(),
        }],
        ..BarChart::default()
    };
    let svg = chart(Axis::linear("relative to alone")).draw();
    keep_sample("bars.svg", &svg);
    assert_is_sound(&svg);
    assert_eq!(count(&svg, "title"), 10);
    assert!(svg.contains("<title>published, web\n0.8</title>"), "{svg}");
    let svg = chart(Axis::log("relative to alone")).draw();
    keep_sample("bars_log.svg", &svg);
    assert_is_sound(&svg);
    assert_eq!(count(&svg, "title"), 9);
}
