use super::*;
use proptest::prelude::*;

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs()).max(1e-12)
}

/// A core of two lanes that was always busy at this density.
fn at_density(thread_density: f64, max_capacity_factor: f64) -> SmtMetrics {
    let rates = RelativeRates::from_rates(&[1.0, max_capacity_factor]).unwrap();
    let both_ns = ((thread_density - 1.0) * 1e9).round() as u64;
    let mut totals = SmtTotals::default();
    let times = [1_000_000_000 - both_ns, both_ns];
    totals.add_core(1_000_000_000, &times, &rates).unwrap();
    totals.metrics()
}

#[test]
fn the_serialised_application_of_the_source() {
    // Table 4: density, maximum capacity factor; capacity factor and productivity as printed
    for (density, max, factor, productivity) in [
        (1.28, 1.15, 1.04..=1.045, 0.90..=0.91),
        (1.95, 1.51, 1.48..=1.49, 0.98..=0.985),
        (1.99, 1.07, 1.065..=1.07, 0.995..=1.0),
    ] {
        let metrics = at_density(density, max);
        assert!(close(metrics.thread_density.unwrap(), density, 1e-9));
        assert!(close(metrics.max_capacity_factor.unwrap(), max, 1e-12));
        assert!(
            factor.contains(&metrics.capacity_factor.unwrap()),
            "{metrics:?}"
        );
        assert!(
            productivity.contains(&metrics.productivity.unwrap()),
            "{metrics:?}"
        );
        assert_eq!(metrics.mt_utilization, metrics.productivity);
    }
}

#[test]
fn busy_for_half_of_the_time() {
    let rates = RelativeRates::from_thread_perf(&[1.0, 0.6]).unwrap();
    let mut totals = SmtTotals::default();
    totals.add_core(1000, &[300, 200], &rates).unwrap();
    let metrics = totals.metrics();
    assert_eq!(metrics.core_utilization, Some(0.5));
    assert_eq!(metrics.lane_utilization, Some(0.35));
    assert_eq!(metrics.thread_density, Some(1.4));
    assert!(close(metrics.capacity_factor.unwrap(), 1.08, 1e-12));
    assert!(close(metrics.productivity.unwrap(), 0.9, 1e-12));
    assert!(close(metrics.mt_utilization.unwrap(), 0.45, 1e-12));
    assert!(close(metrics.mt1_ns, 540.0, 1e-12));
}

/// MT1 is the core with SMT off: what SMT costs a lane alone is lost beside it.
#[test]
fn a_lane_alone_is_below_mt1_where_smt_costs_it_something() {
    let rates = RelativeRates::from_thread_perf(&[0.9, 0.6]).unwrap();
    assert_eq!(rates.lane_speed(1), Some(0.9));
    assert_eq!(rates.mt1_ns(&[(1, 100), (2, 100)]), Ok(150.0));
    let mut totals = SmtTotals::default();
    totals.add_core(1000, &[300, 200], &rates).unwrap();
    let metrics = totals.metrics();
    assert!(close(metrics.mt1_ns, 0.9 * 300.0 + 1.2 * 200.0, 1e-12));
    assert!(close(metrics.capacity_factor.unwrap(), 1.02, 1e-12));
    assert!(close(metrics.max_capacity_factor.unwrap(), 1.2, 1e-12));
    assert!(close(metrics.productivity.unwrap(), 0.85, 1e-12));
}

#[test]
fn a_core_of_one_lane_is_at_one() {
    let rates = RelativeRates::from_rates(&[3e9]).unwrap();
    let mut totals = SmtTotals::default();
    totals.add_core(10, &[4], &rates).unwrap();
    let metrics = totals.metrics();
    for of in [
        metrics.thread_density,
        metrics.capacity_factor,
        metrics.max_capacity_factor,
        metrics.productivity,
    ] {
        assert_eq!(of, Some(1.0));
    }
    assert!(metrics.hardly_seen.is_empty());
}

#[test]
fn an_idle_core_has_no_density() {
    let rates = RelativeRates::from_thread_perf(&[1.0, 0.6]).unwrap();
    let mut totals = SmtTotals::default();
    totals.add_core(10, &[0, 0], &rates).unwrap();
    let metrics = totals.metrics();
    assert_eq!(metrics.thread_density, None);
    assert_eq!(metrics.productivity, None);
    assert_eq!(metrics.mt_utilization, Some(0.0));
    assert_eq!(SmtTotals::default().metrics().mt_utilization, None);
}

#[test]
fn unequal_cores_weigh_by_their_capacity() {
    let two = RelativeRates::from_thread_perf(&[1.0, 0.6]).unwrap();
    let four = RelativeRates::from_thread_perf(&[1.0, 0.75, 0.57, 0.45]).unwrap();
    let mut totals = SmtTotals::default();
    totals.add_core(100, &[0, 100], &two).unwrap();
    totals.add_core(100, &[100, 0, 0, 0], &four).unwrap();
    let metrics = totals.metrics();
    assert_eq!(metrics.thread_density, Some(1.5));
    assert!(close(metrics.capacity_factor.unwrap(), 1.1, 1e-12));
    assert!(close(metrics.max_capacity_factor.unwrap(), 1.5, 1e-12));
    assert!(close(metrics.productivity.unwrap(), 2.2 / 3.0, 1e-12));
    assert_eq!(metrics.lane_utilization, Some(0.5));
}

#[test]
fn a_density_that_was_hardly_seen_is_named() {
    assert_eq!(at_density(1.005, 1.2).hardly_seen, [2]);
    assert_eq!(at_density(1.995, 1.2).hardly_seen, [1]);
    assert!(at_density(1.5, 1.2).hardly_seen.is_empty());
    // between, nothing rests on a density
    let rates = RelativeRates::from_thread_perf(&[1.0, 0.8, 0.7]).unwrap();
    let mut totals = SmtTotals::default();
    totals.add_core(100, &[50, 0, 50], &rates).unwrap();
    assert!(totals.metrics().hardly_seen.is_empty());
}

#[test]
fn bad_input_is_refused_and_adds_nothing() {
    assert!(matches!(
        RelativeRates::from_rates(&[]),
        Err(Error::Rate { lanes: 1, .. })
    ));
    assert_eq!(
        RelativeRates::from_rates(&[0.0, 1.0]),
        Err(Error::NoWorkAlone)
    );
    assert!(RelativeRates::from_rates(&[f64::MIN_POSITIVE, f64::MAX]).is_err());
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let error = RelativeRates::from_rates(&[1.0, bad]).unwrap_err();
        assert!(matches!(error, Error::Rate { lanes: 2, .. }), "{error}");
    }
    assert!(matches!(
        RelativeRates::from_thread_perf(&[1.0, 1.2]),
        Err(Error::ThreadPerf(_))
    ));
    let rates = RelativeRates::from_thread_perf(&[1.0, 0.6]).unwrap();
    let mut totals = SmtTotals::default();
    let beyond = totals.add_core(10, &[1, 1, 1], &rates);
    assert_eq!(beyond, Err(Error::Density { busy: 3, known: 2 }));
    let long = totals.add_core(10, &[9, 2], &rates);
    assert!(matches!(long, Err(Error::BusyTooLong { busy_ns: 11, .. })));
    assert_eq!(
        totals.add_core(u64::MAX, &[0, 0], &rates),
        Err(Error::Overflow)
    );
    assert_eq!(
        totals.add_core(u64::MAX, &[u64::MAX, 1], &rates),
        Err(Error::Overflow)
    );
    assert_eq!(totals, SmtTotals::default());
    assert!(rates.mt1_ns(&[(0, 5)]).is_err() && rates.mt1_ns(&[(3, 5)]).is_err());
    totals.add_core(10, &[1, 1, 0], &rates).unwrap();
}

#[test]
fn fewer_lanes_online() {
    let rates = RelativeRates::from_thread_perf(&[1.0, 0.75, 0.57, 0.45]).unwrap();
    assert_eq!(rates.of_lanes(2).max_capacity_factor(), 1.5);
    assert_eq!(rates.of_lanes(0).lanes(), 1);
    assert_eq!(rates.of_lanes(9), rates);
    // with one lane online SMT is off
    let overhead = RelativeRates::from_thread_perf(&[0.9, 0.6]).unwrap();
    assert_eq!(overhead.of_lanes(1).ratio(1), Some(1.0));
    assert_eq!(overhead.of_lanes(2), overhead);
}

/// Rates of a core, and periods of it: which lanes run (a bit each), for how long.
fn histories() -> impl Strategy<Value = (Vec<f64>, Vec<(u32, u64)>)> {
    (1usize..6).prop_flat_map(|lanes| {
        let rates = prop::collection::vec(0.1f64..1e9, lanes);
        let periods = prop::collection::vec((0u32..1 << lanes, 0u64..1_000_000), 0..40);
        (rates, periods)
    })
}

proptest! {
    #[test]
    fn mt1_time_over_tasks_is_work_in_time_alone((rates, periods) in histories()) {
        let relative = RelativeRates::from_rates(&rates).unwrap();
        let lanes = rates.len();
        let (mut work, mut elapsed_ns) = (0.0, 0);
        let mut times = vec![0u64; lanes];
        // a task a lane
        let mut intervals = vec![Vec::new(); lanes];
        for (running, ns) in periods {
            let busy = running.count_ones() as usize;
            elapsed_ns += ns;
            if busy > 0 {
                work += rates[busy - 1] * ns as f64;
                times[busy - 1] += ns;
            }
            for (lane, intervals) in intervals.iter_mut().enumerate() {
                if running & (1 << lane) != 0 {
                    intervals.push((busy, ns));
                }
            }
        }
        let of_tasks: f64 = intervals.iter().map(|i| relative.mt1_ns(i).unwrap()).sum();
        prop_assert!(close(of_tasks, work / rates[0], 1e-9), "{of_tasks} {work}");
        let mut totals = SmtTotals::default();
        totals.add_core(elapsed_ns, &times, &relative).unwrap();
        let metrics = totals.metrics();
        prop_assert!(close(metrics.mt1_ns, work / rates[0], 1e-9));
        if let Some(density) = metrics.thread_density {
            prop_assert!((1.0..=lanes as f64).contains(&density));
            let both = metrics.core_utilization.unwrap() * metrics.productivity.unwrap();
            prop_assert!(close(metrics.mt_utilization.unwrap(), both, 1e-9));
        }
    }

    #[test]
    fn adding_cores_one_by_one_equals_adding_sums(
        times in prop::collection::vec((0u64..1000, 0u64..1000), 1..10)
    ) {
        let rates = RelativeRates::from_thread_perf(&[1.0, 0.6]).unwrap();
        let mut one_by_one = SmtTotals::default();
        let mut sums = [SmtTotals::default(), SmtTotals::default()];
        for (index, (alone, both)) in times.iter().enumerate() {
            one_by_one.add_core(2000, &[*alone, *both], &rates).unwrap();
            sums[index % 2].add_core(2000, &[*alone, *both], &rates).unwrap();
        }
        let [mut together, other] = sums;
        together.add(&other).unwrap();
        let (a, b) = (one_by_one.metrics(), together.metrics());
        prop_assert_eq!(a.thread_density, b.thread_density);
        prop_assert!(close(a.mt1_ns, b.mt1_ns, 1e-12));
        prop_assert_eq!(a.hardly_seen, b.hardly_seen);
    }
}
