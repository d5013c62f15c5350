//! Simulated queueing systems against their exact solutions: the machine under the scheduler's own
//! source and under global FIFO, where nothing costs anything, as queueing theory assumes.
//!
//! Each result has to lie within the 99 % confidence interval, so that of a hundred such tests with
//! fresh seeds one would fail by chance; the seed is fixed and was not chosen.

use sidelane_sim::analytic::{closed_load_dependent, load_dependent_response, mg1_response};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MEAN_NS: f64 = 1e6;
const UTILIZATIONS: [f64; 3] = [0.3, 0.6, 0.85];

fn machine(cores: u32, thread_perf: &[f64]) -> Machine {
    let topology =
        Topology::regular(&Regular::one_package(cores, thread_perf.len() as u32)).unwrap();
    let interference = Interference::ThreadPerf(thread_perf.to_vec());
    Machine::new(&topology, interference, Costs::none()).unwrap()
}

fn exponential(mean_ns: f64) -> Distribution {
    Distribution::Exponential(mean_ns)
}

/// Mean response under each scheduler, ns, with its 99 % confidence interval.
fn responses(machine: &Machine, arrivals: Arrivals, demand: &Distribution) -> Vec<Estimate> {
    let workers = machine.nr_lanes;
    let server = Workload {
        task: TaskSpec::new("server", Class::Critical),
        behaviour: Behaviour::Requests {
            arrivals,
            stages: vec![Stage {
                workers,
                by: None,
                demand: demand.clone(),
                task: None,
            }],
            deadline_ns: None,
            quality: Quality::AllOrNothing,
            marks: false,
        },
    };
    let configuration = |name: &str, scheduler| Configuration {
        name: name.into(),
        scheduler,
        smt: None,
        control: None,
        workloads: vec![0],
    };
    let scenario = Scenario {
        name: "analytic".into(),
        about: String::new(),
        assumptions: Vec::new(),
        machine: machine.clone(),
        workloads: vec![server],
        configurations: vec![
            configuration("sidelane", Kind::from(Settings::default())),
            configuration("fifo", Kind::Baseline(Baseline::Fifo)),
        ],
        run: Run {
            seed: 1,
            replications: 10,
            // Long enough for means of skewed demands to be nearly normal, as the interval assumes.
            length_ns: 20_000 * MEAN_NS as u64,
            warmup_ns: 1_000 * MEAN_NS as u64,
        },
    };
    let outcomes = run(&scenario, &|| ()).unwrap();
    let estimate = |outcome: &Outcome| {
        let mean = |r: &Replication| r.workloads[0].mean_ns().unwrap();
        let means: Vec<f64> = outcome.replications.iter().map(mean).collect();
        Estimate::of(&means, 0.99).unwrap()
    };
    outcomes.iter().map(estimate).collect()
}

fn assert_all_contain(estimates: &[Estimate], exact_ns: f64, what: &str) {
    for estimate in estimates {
        println!("{what}: exact {exact_ns:.0} ns, simulated {estimate:?}");
        assert!(
            estimate.contains(exact_ns),
            "{what}: {exact_ns} not in {estimate:?}"
        );
    }
}

/// Poisson arrivals with an exponential demand at a share of what the machine can do; `rates[n - 1]`
/// is the rate of completion with n requests there.
fn open_loop(machine: &Machine, rates: &[f64], what: &str) {
    for utilization in UTILIZATIONS {
        let rate = utilization * rates.last().unwrap();
        let arrivals = Arrivals::Open {
            interarrival: exponential(1.0 / rate),
        };
        let found = responses(machine, arrivals, &exponential(MEAN_NS));
        let exact_ns = load_dependent_response(rate, rates).unwrap();
        assert_all_contain(&found, exact_ns, &format!("{what} at {utilization}"));
    }
}

#[test]
fn mm1() {
    open_loop(&machine(1, &[1.0]), &[1.0 / MEAN_NS], "M/M/1");
}

#[test]
fn mms() {
    let rates: Vec<f64> = (1..=4).map(|n| f64::from(n) / MEAN_NS).collect();
    open_loop(&machine(4, &[1.0]), &rates, "M/M/4");
}

/// Lanes that slow each other down: n requests on one core are served at n × threadPerf[n].
#[test]
fn smt_core() {
    let speeds = [1.0, 0.75, 0.57, 0.45];
    let rate = |(n, speed): (usize, &f64)| (n + 1) as f64 * speed / MEAN_NS;
    let rates: Vec<f64> = speeds.iter().enumerate().map(rate).collect();
    open_loop(&machine(1, &speeds), &rates, "one core of four lanes");
}

#[test]
fn mg1() {
    let distributions = [
        Distribution::Constant(MEAN_NS),
        Distribution::Uniform {
            min: 0.0,
            max: 2.0 * MEAN_NS,
        },
        Distribution::Hyperexponential(vec![(0.9, 0.5 * MEAN_NS), (0.1, 5.5 * MEAN_NS)]),
    ];
    for demand in distributions {
        for utilization in UTILIZATIONS {
            let rate = utilization / MEAN_NS;
            let arrivals = Arrivals::Open {
                interarrival: exponential(1.0 / rate),
            };
            let found = responses(&machine(1, &[1.0]), arrivals, &demand);
            let exact_ns = mg1_response(rate, demand.mean(), demand.squared_cv()).unwrap();
            assert_all_contain(
                &found,
                exact_ns,
                &format!("M/G/1 {demand:?} at {utilization}"),
            );
        }
    }
}

#[test]
fn closed_network() {
    let rates: Vec<f64> = (1..=4).map(|n| f64::from(n) / MEAN_NS).collect();
    let think_ns = 10.0 * MEAN_NS;
    for clients in [10, 30, 60] {
        let arrivals = Arrivals::Closed {
            clients,
            think: exponential(think_ns),
        };
        let found = responses(&machine(4, &[1.0]), arrivals, &exponential(MEAN_NS));
        let exact_ns = closed_load_dependent(clients as u32, think_ns, &rates)
            .unwrap()
            .response;
        assert_all_contain(&found, exact_ns, &format!("{clients} clients, 4 servers"));
    }
}

/// Two streams of 0.25 requests a ms, each with a demand of 1 ms on the mean, and one task for both.
const SHARED: &str = r#"
[machine]
cores = 2
lanes = 1
costs = "none"
[run]
replications = 4
seconds = 20
[[workload]]
name = "crew"
class = "normal"
serve = { tasks = 1 }
[[workload]]
name = "a"
class = "normal"
open = { rate_per_s = 250 }
stages = [{ by = "crew", demand_ms = { exponential = 1 } }]
[[workload]]
name = "b"
class = "normal"
open = { rate_per_s = 250 }
stages = [{ by = "crew", demand_ms = { exponential = 1 } }, { delay_ms = 3 }]
[[configuration]]
scheduler = "sidelane"
[[configuration]]
scheduler = "fifo"
"#;

fn mean(outcome: &Outcome, workload: &str, metric: &str) -> f64 {
    let values = outcome.values(Some(workload), metric).unwrap();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn requests_of_several_workloads_wait_in_one_queue() {
    let scenario = Scenario::parse(SHARED, "shared.toml").unwrap();
    for outcome in run(&scenario, &|| ()).unwrap() {
        // M/M/1 at half load: 2 ms, and what the second waits besides
        for (workload, expected_ms) in [("a", 2.0), ("b", 5.0)] {
            let mean_ms = mean(&outcome, workload, "mean_ms");
            assert!(
                (mean_ms - expected_ms).abs() < 0.15,
                "{workload}: {mean_ms} ms"
            );
            assert_eq!(
                mean(&outcome, workload, "lane_rate"),
                0.0,
                "it has no tasks"
            );
        }
        let busy = mean(&outcome, "crew", "lane_rate");
        assert!((busy - 0.5).abs() < 0.02, "{busy}");
    }
}

#[test]
fn a_request_whose_time_is_up_leaves_the_task_to_others() {
    let text = SHARED.replace("name = \"a\"", "name = \"a\"\ndeadline_ms = 1");
    let scenario = Scenario::parse(&text, "shared.toml").unwrap();
    for outcome in run(&scenario, &|| ()).unwrap() {
        let [missed, a_ms, b_ms] = [
            mean(&outcome, "a", "deadline_misses"),
            mean(&outcome, "a", "mean_ms"),
            mean(&outcome, "b", "mean_ms"),
        ];
        assert!(
            (0.3..0.9).contains(&missed) && a_ms <= 1.0,
            "{missed}, {a_ms} ms"
        );
        assert!((4.0..4.8).contains(&b_ms), "{b_ms} ms");
    }
}
