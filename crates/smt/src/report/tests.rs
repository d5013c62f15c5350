use super::*;
use crate::recording::Writer;
use crate::snapshot::{CgroupTotals, CoreTotals, LaneTotals, Notes, RateSource, TaskTotals};

const SECOND: u64 = 1_000_000_000;

fn usage(raw_ns: u64) -> Usage {
    Usage {
        raw_ns,
        mt1_ns: raw_ns / 2,
        runs: 5,
        jobs: LogHistogram::of([1_000_000, 2_000_000]),
        borrowed_ns: Some(raw_ns / 4),
        forced_idle_ns: Some(raw_ns / 8),
        ..Usage::default()
    }
}

fn task(pid: u32, class: Option<Class>) -> TaskTotals {
    TaskTotals {
        pid,
        comm: format!("worker <{pid}>"),
        class,
        usage: usage(u64::from(pid) * 1_000_000),
        ..TaskTotals::default()
    }
}

fn interval(index: u64, alone_ns: u64, both_ns: u64) -> Interval {
    let lane = |cpu, busy_ns| LaneTotals {
        cpu,
        online: true,
        busy_ns,
        instructions: None,
    };
    Interval {
        from_ns: index * SECOND,
        to_ns: (index + 1) * SECOND,
        rates: Rates {
            source: RateSource::Calibrated,
            thread_perf: vec![1.0, 0.6],
        },
        cores: vec![CoreTotals {
            core: 0,
            elapsed_ns: SECOND,
            by_density_ns: vec![alone_ns, both_ns],
            lanes: vec![lane(0, alone_ns + both_ns), lane(4, both_ns)],
            forced_idle_ns: Some(alone_ns / 10),
        }],
        tasks: vec![task(1, Some(Class::Critical)), task(2, Some(Class::Batch))],
        cgroups: vec![CgroupTotals {
            id: 9,
            path: Some("/a/very/long/path/of/a/cgroup/that/does/not/fit/into/a/column".to_owned()),
            usage: usage(3_000_000),
        }],
        ..Interval::default()
    }
}

fn file(frames: &[Frame]) -> Vec<u8> {
    let header = Header {
        kernel: "6.12".to_owned(),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    for frame in frames {
        writer.write(frame).unwrap();
    }
    writer.finish(None).unwrap()
}

fn frames(intervals: &[Interval]) -> Vec<Frame> {
    intervals.iter().cloned().map(Frame::Interval).collect()
}

fn two_seconds() -> Vec<Interval> {
    vec![
        interval(0, SECOND / 2, SECOND / 2),
        interval(1, SECOND / 2, 0),
    ]
}

fn of(intervals: &[Interval], options: &Options) -> Report {
    report("a.rec", &file(&frames(intervals)), options).unwrap()
}

#[test]
fn intervals_are_added_up() {
    let report = of(&two_seconds(), &Options::default());
    assert_eq!(
        (report.elapsed_s, report.intervals, report.lanes),
        (2.0, 2, 2)
    );
    assert_eq!(report.cores[0].densities, [0.25, 0.5, 0.25]);
    assert!((report.metrics.thread_density.unwrap() - 4.0 / 3.0).abs() < 1e-12);
    assert_eq!(report.metrics.lane_utilization, Some(0.5));
    // most MT1 time first
    assert_eq!(
        report.tasks.iter().map(|t| t.pid).collect::<Vec<_>>(),
        [2, 1]
    );
    assert_eq!(report.tasks[0].raw_ms, 4.0);
    assert_eq!(report.series.len(), 2);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn what_batch_borrowed_and_critical_work_forced() {
    let known = of(&two_seconds(), &Options::default());
    assert_eq!(known.tasks[0].borrowed_ms, Some(1.0));
    assert_eq!(known.tasks[0].forced_idle_ms, Some(0.5));
    // 2 × 50 ms of two lanes in two seconds; 2 × 0.75 ms of the cgroup
    assert_eq!(known.forced_idle, Some(0.025));
    assert_eq!(known.cores[0].forced_idle, Some(0.025));
    assert!((known.borrowed.unwrap() - 0.000_375).abs() < 1e-12);
    let text = known.text();
    assert!(
        text.contains("forced%") && text.contains("borr. ms"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100));

    let mut intervals = two_seconds();
    intervals[1].cores[0].forced_idle_ns = None;
    let usage = &mut intervals[1].tasks[1].usage;
    (usage.borrowed_ns, usage.forced_idle_ns) = (None, None);
    let half = of(&intervals, &Options::default());
    assert_eq!((half.forced_idle, half.tasks[0].borrowed_ms), (None, None));
    assert!(!half.text().contains("forced%"));
    let comparison = Comparison::new(&known, &half).text();
    let line = comparison
        .lines()
        .find(|line| line.starts_with("Forced idle"));
    assert!(
        line.unwrap().ends_with("2.5               na"),
        "{comparison}"
    );
}

#[test]
fn transactions_are_jobs_of_critical_tasks_or_given() {
    let report = of(&two_seconds(), &Options::default());
    let jobs = report.transactions.unwrap();
    assert_eq!((jobs.source, jobs.per_s), ("jobs of critical tasks", 2.0));
    assert_eq!(jobs.per_busy_s, Some(4.0));
    assert!((jobs.p50_ms.unwrap() - 1.0).abs() < 0.04);
    let given = Options {
        transactions: Some(300.0),
        ..Options::default()
    };
    let given = of(&two_seconds(), &given).transactions.unwrap();
    assert_eq!((given.source, given.per_s), ("as given", 150.0));
    let mut unknown = two_seconds();
    for interval in &mut unknown {
        interval.tasks.iter_mut().for_each(|task| task.class = None);
    }
    assert!(of(&unknown, &Options::default()).transactions.is_none());
}

#[test]
fn the_delta_table_of_the_source() {
    // Table 1: ETR 7396.28 and 10072.69 at 95.6 % and 84.6 % of each logical processor
    let with = |name: &str, busy: f64, transactions: f64| {
        let busy_ns = (busy * SECOND as f64) as u64;
        let mut one = interval(0, 0, busy_ns);
        one.cores[0].lanes[1].busy_ns = busy_ns;
        let options = Options {
            transactions: Some(transactions),
            ..Options::default()
        };
        report(name, &file(&frames(&[one])), &options).unwrap()
    };
    let comparison = Comparison::new(
        &with("AMPDGLD0", 0.956, 7396.28),
        &with("AMPDGLD1", 0.846, 10072.69),
    );
    let row = |what: &str| {
        let row = comparison
            .rows
            .iter()
            .find(|row| row.what.starts_with(what));
        row.unwrap().clone()
    };
    assert!((row("ETR").percent.unwrap() - 36.2).abs() < 0.05);
    assert!((row("ITR").values[0].unwrap() - 7736.69).abs() < 1.0);
    assert!((row("ITR").percent.unwrap() - 53.9).abs() < 0.05);
    assert!((row("Total util").percent.unwrap() + 11.5).abs() < 0.05);
    let text = comparison.text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("AMPDGLD1") && text.contains("36.2"), "{text}");
    assert_eq!(row("Logical").delta, Some(0.0));
}

#[test]
fn what_is_not_known_has_no_delta() {
    let idle = of(&[interval(0, 0, 0)], &Options::default());
    let busy = of(&two_seconds(), &Options::default());
    let comparison = Comparison::new(&idle, &busy);
    let density = comparison
        .rows
        .iter()
        .find(|row| row.what.contains("density"));
    let density = density.unwrap();
    assert_eq!(
        (density.values[0], density.delta, density.percent),
        (None, None, None)
    );
    assert!(comparison.text().contains(" na "), "{}", comparison.text());
}

#[test]
fn without_classes_it_is_said_why_response_times_are_not_known() {
    let mut unknown = two_seconds();
    let tasks = unknown.iter_mut().flat_map(|second| &mut second.tasks);
    tasks.for_each(|task| task.class = None);
    let unknown = of(&unknown, &Options::default());
    let known = of(&two_seconds(), &Options::default());
    let text = Comparison::new(&unknown, &unknown).text();
    assert!(
        text.contains("no scheduler told which tasks are critical"),
        "{text}"
    );
    let waiting = text
        .lines()
        .find(|line| line.starts_with("Waiting, % of wanted"));
    assert!(!waiting.unwrap().contains("na"), "{text}");
    let text = Comparison::new(&known, &known).text();
    assert!(!text.contains("no scheduler told"), "{text}");
}

#[test]
fn everything_that_limits_the_figures_is_told() {
    let [first, mut second] = <[Interval; 2]>::try_from(two_seconds()).unwrap();
    (second.from_ns, second.to_ns) = (3 * SECOND, 4 * SECOND);
    second.clock_set_ms = -3_600_000;
    second.suspended_ns = 5 * SECOND;
    second.rates.source = RateSource::Assumed;
    second.notes = Notes {
        hotplug: 1,
        lost: 2,
        ..Notes::default()
    };
    let mut bytes = file(&frames(&[first, second]));
    let end = bytes.len() - 3;
    bytes.truncate(end);
    let report = report("a.rec", &bytes, &Options::default()).unwrap();
    let text = report.text();
    for said in [
        "2.000 s are missing",
        "set by -3600000 ms",
        "suspended for 5.0 s",
        "threadPerf 1.000, 0.600 is assumed",
        "1 changes of the lanes that are online",
        "2 changes were lost",
        "its end is missing",
        "ends within a frame",
    ] {
        assert!(text.replace("\n  ", " ").contains(said), "{said}: {text}");
    }
    assert_eq!(report.elapsed_s, 2.0);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn a_restart_is_told_and_its_time_is_no_time() {
    let [first, mut second] = <[Interval; 2]>::try_from(two_seconds()).unwrap();
    (second.from_ns, second.to_ns) = (3 * SECOND, 4 * SECOND);
    let frames = [
        Frame::Interval(first),
        Frame::Restarted("lanes came online".to_owned()),
        Frame::Interval(second),
    ];
    let report = report("a.rec", &file(&frames), &Options::default()).unwrap();
    assert_eq!((report.elapsed_s, report.intervals), (2.0, 2));
    let said = report.warnings.join("; ");
    assert!(said.contains("anew: lanes came") && said.contains("2.000 s are not recorded"));
}

#[test]
fn tasks_without_end_are_bounded() {
    let many = |from: u32| {
        let mut one = interval(u64::from(from), SECOND / 2, 0);
        let pids = from * 40_000 + 10..(from + 1) * 40_000 + 10;
        one.tasks = pids.map(|pid| task(pid, Some(Class::Critical))).collect();
        one
    };
    let report = of(&[many(0), many(1)], &Options::default());
    assert!(
        report
            .warnings
            .join(" ")
            .contains("least time were dropped")
    );
    assert_eq!(report.tasks[0].pid, 80_009);
    assert_eq!(report.transactions.unwrap().per_s, 80_000.0);
}

#[test]
fn nothing_is_an_error() {
    let said = report("a", &file(&[]), &Options::default()).unwrap_err();
    let stopped =
        "it holds no complete interval: its recorder was stopped before the first one was over";
    assert_eq!(said.to_string(), stopped);
    // it was killed, so that not even an end is there; or in the midst of the first interval
    let one = file(&frames(&two_seconds()));
    let marker = b"\xf5SLF";
    let starts: Vec<usize> = (0..one.len())
        .filter(|&at| one[at..].starts_with(marker))
        .collect();
    let killed = report("a", &one[..starts[1]], &Options::default()).unwrap_err();
    assert_eq!(killed.to_string(), stopped);
    let within = report("a", &one[..starts[1] + 20], &Options::default()).unwrap_err();
    assert!(
        within
            .to_string()
            .starts_with("it holds no complete interval: the file ends within")
    );
    let advised = crate::recording::intervals(&one[..starts[1]]).unwrap_err();
    assert_eq!(advised.to_string(), stopped);
    assert!(report("a", b"text", &Options::default()).is_err());
}

/// A name that would colour a terminal, break a line or a table, end a string or a tag, and turn text around.
const NASTY: &str = "\x1b[31m\x07\n\t\"\\\u{202e}\u{9b}\u{fffd}<b>&";

fn named_nasty() -> Vec<u8> {
    let mut intervals = two_seconds();
    for interval in &mut intervals {
        for task in &mut interval.tasks {
            task.comm = NASTY.to_owned();
        }
        for group in &mut interval.cgroups {
            group.path = Some(format!("/{NASTY}"));
        }
        interval.notes.messages = vec![NASTY.to_owned()];
    }
    let header = Header {
        kernel: NASTY.to_owned(),
        scheduler: Some(NASTY.to_owned()),
        command: Some(vec![NASTY.to_owned()]),
        ..Header::default()
    };
    let mut writer = Writer::new(Vec::new(), header).unwrap();
    let restarted = Frame::Restarted(NASTY.to_owned());
    let all = [restarted].into_iter().chain(frames(&intervals));
    all.for_each(|frame| writer.write(&frame).unwrap());
    writer.finish(None).unwrap()
}

#[test]
fn no_name_reaches_the_terminal_or_the_page_as_it_is() {
    let report = report(NASTY, &named_nasty(), &Options::default()).unwrap();
    let both = Comparison::new(&report, &report);
    let lines = of(&two_seconds(), &Options::default())
        .text()
        .lines()
        .count();
    for text in [
        report.text(),
        both.text(),
        report.html(),
        both.html([&report, &report]),
    ] {
        let drives = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(drives), "{text:?}");
    }
    // of the notes and the heading, some lines; of the tables none
    let table = |text: &str| text.lines().filter(|line| line.contains("31m")).count();
    assert!(table(&report.text()) >= report.tasks.len() + report.cgroups.len());
    assert!(
        report.text().contains(r"\x1b[31m\x07\x0a\x09"),
        "{}",
        report.text()
    );
    assert!(report.text().lines().count() <= lines + 6);
    assert!(!report.html().contains("<b>"));
    // JSON has the name itself
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(json["tasks"][0]["name"], NASTY);
}

#[test]
fn pages_hold_figures_and_no_foreign_markup() {
    let report = of(&two_seconds(), &Options::default());
    let page = report.html();
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("worker &lt;1&gt;") && !page.contains("<1>"));
    let both = Comparison::new(&report, &report).html([&report, &report]);
    assert_eq!(both.matches("<svg").count(), 6);
}

#[test]
fn text_fits_and_lists_the_top() {
    let options = Options {
        top: 1,
        ..Options::default()
    };
    let text = of(&two_seconds(), &options).text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(
        text.contains("worker <2> (2)") && !text.contains("worker <1>"),
        "{text}"
    );
    assert!(text.contains("…"), "{text}");
}
