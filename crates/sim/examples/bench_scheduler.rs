//! How fast the simulator is with the scheduler's own source in the loop, and how that grows with
//! the machine.
//!
//! `cargo run --release -p sidelane-sim --example bench_scheduler [REQUESTS [CORES...]]`
//!
//! Cores of two lanes, 64 a package. Critical requests arrive at random, with an exponential demand
//! of 1 ms on average, at half of what whole cores can do; a batch task for each lane takes what is
//! left. All machines serve the same number of requests. A scheduling event is a wake-up, a task
//! that begins to run, a kick that reaches its lane, or a tick of a busy lane; `handled` counts what
//! left the simulator's queue of events.

#![allow(clippy::print_stdout, missing_docs)]

use sidelane_sim::{
    Class, Costs, Distribution, Interference, Kind, Machine, Occurrence, Settings, Simulation,
    Stream, TaskId, TaskSpec,
};
use sidelane_topology::{Numbering, Regular, Topology};
use std::collections::VecDeque;
use std::process::Command;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const LANES_PER_CORE: u32 = 2;
const CORES_PER_PACKAGE: u32 = 64;
const CORES_PER_CACHE: u32 = 8;
const THREAD_PERF: [f64; 2] = [1.0, 0.6];
const LOAD: f64 = 0.5;
const MEAN_DEMAND_NS: f64 = 1e6;
const REQUESTS: u64 = 300_000;
const CORES: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Sleeping tasks to weigh: many, so that whole pages do not matter.
const WEIGHED_TASKS: usize = 20_000;
/// Makes this program weigh tasks, for itself.
const WEIGH: &str = "--weigh";

fn machine(cores: u32) -> Result<Machine> {
    let per_package = cores.min(CORES_PER_PACKAGE);
    let topology = Topology::regular(&Regular {
        packages: cores / per_package,
        caches_per_package: per_package.div_ceil(CORES_PER_CACHE),
        cores_per_cache: per_package.min(CORES_PER_CACHE),
        lanes_per_core: LANES_PER_CORE,
        numbering: Numbering::Apart,
    })?;
    let interference = Interference::ThreadPerf(THREAD_PERF.to_vec());
    Ok(Machine::new(&topology, interference, Costs::default())?)
}

fn simulation(cores: u32) -> Result<Simulation> {
    let kind = Kind::from(Settings::default());
    Ok(Simulation::new(machine(cores)?, &kind)?)
}

/// A server with a worker a lane.
struct Server {
    interarrival: Distribution,
    demand: Distribution,
    arrivals: Stream,
    demands: Stream,
    idle: VecDeque<TaskId>,
    /// Arrival and demand of the requests that wait, ns.
    waiting: VecDeque<(u64, f64)>,
    /// When the request arrived that each worker serves, by task, ns.
    served: Vec<u64>,
    completed: u64,
    response_sum_ns: u128,
}

impl Server {
    fn new(sim: &mut Simulation, cores: u32) -> Result<Server> {
        let spec = TaskSpec::new("server", Class::Critical);
        let mut idle = VecDeque::new();
        for _ in 0..sim.machine().nr_lanes {
            idle.push_back(sim.create(&spec)?);
        }
        Ok(Server {
            interarrival: Distribution::Exponential(MEAN_DEMAND_NS / LOAD / f64::from(cores)),
            demand: Distribution::Exponential(MEAN_DEMAND_NS),
            arrivals: Stream::new(1, &[1]),
            demands: Stream::new(1, &[2]),
            served: vec![0; idle.len()],
            idle,
            waiting: VecDeque::new(),
            completed: 0,
            response_sum_ns: 0,
        })
    }

    fn plan_arrival(&mut self, sim: &mut Simulation) {
        let after_ns = self.interarrival.sample(&mut self.arrivals) as u64;
        sim.set_timer(sim.now_ns() + after_ns, 0);
    }

    /// Goes on until so many requests are complete.
    fn run(&mut self, sim: &mut Simulation, requests: u64) -> Result<()> {
        while self.completed < requests {
            match sim.next(u64::MAX)? {
                Some(Occurrence::Timer(_)) => {
                    let request = (sim.now_ns(), self.demand.sample(&mut self.demands));
                    self.waiting.push_back(request);
                    self.plan_arrival(sim);
                    if let Some(worker) = self.idle.pop_front() {
                        self.serve(sim, worker)?;
                    }
                }
                Some(Occurrence::Done(worker)) => {
                    self.completed += 1;
                    let response_ns = sim.now_ns() - self.served[worker.0 as usize];
                    self.response_sum_ns += u128::from(response_ns);
                    self.serve(sim, worker)?;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// The worker takes the next request, or sleeps.
    fn serve(&mut self, sim: &mut Simulation, worker: TaskId) -> Result<()> {
        let Some((arrived_ns, demand_ns)) = self.waiting.pop_front() else {
            self.idle.push_back(worker);
            return Ok(());
        };
        self.served[worker.0 as usize] = arrived_ns;
        Ok(sim.give(worker, demand_ns)?)
    }
}

/// A line of the table.
fn measure(cores: u32, requests: u64) -> Result<String> {
    let mut sim = simulation(cores)?;
    let mut server = Server::new(&mut sim, cores)?;
    for _ in 0..sim.machine().nr_lanes {
        let batch = sim.create(&TaskSpec::new("batch", Class::Batch))?;
        sim.give(batch, f64::INFINITY)?;
    }
    server.plan_arrival(&mut sim);
    server.run(&mut sim, requests / 10)?; // caches and queues fill
    let (earlier, earlier_ns) = (sim.event_counts(), sim.now_ns());
    let began = Instant::now();
    server.run(&mut sim, requests / 10 + requests)?;
    let seconds = began.elapsed().as_secs_f64();
    let counts = sim.event_counts();
    let scheduling = (counts.scheduling() - earlier.scheduling()) as f64;
    let handled = (counts.handled - earlier.handled) as f64;
    let simulated_s = (sim.now_ns() - earlier_ns) as f64 / 1e9;
    let response_ns = server.response_sum_ns as f64 / server.completed as f64;
    Ok(format!(
        "{cores:>5} {:>10.2} {:>14.2} {:>12.0} {:>12.0} {:>9.0} {:>10.4} {:>12.0}",
        simulated_s / seconds,
        scheduling / requests as f64,
        scheduling / seconds,
        handled / seconds,
        seconds / scheduling * 1e9,
        response_ns / 1e6,
        bytes_per_task(cores)?,
    ))
}

/// Resident memory that a task costs, bytes, by a process that did nothing else.
fn bytes_per_task(cores: u32) -> Result<f64> {
    let mut weigher = Command::new(std::env::current_exe()?);
    let output = weigher.args([WEIGH, &cores.to_string()]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Weighs tasks that sleep.
fn weigh(cores: u32) -> Result<f64> {
    let mut sim = simulation(cores)?;
    let before = resident_bytes()?;
    for _ in 0..WEIGHED_TASKS {
        sim.create(&TaskSpec::new("sleeper", Class::Normal))?;
    }
    let grown = resident_bytes()?.saturating_sub(before);
    Ok(grown as f64 / WEIGHED_TASKS as f64)
}

/// Resident memory of this process.
fn resident_bytes() -> Result<u64> {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(pages * PAGE_BYTES)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, cores] = &arguments[..]
        && first == WEIGH
    {
        println!("{}", weigh(cores.parse()?)?);
        return Ok(());
    }
    let requests = match arguments.first() {
        Some(requests) => requests.parse()?,
        None => REQUESTS,
    };
    let mut cores = CORES.to_vec();
    if arguments.len() > 1 {
        let wanted = arguments[1..].iter().map(|cores| cores.parse());
        cores = wanted.collect::<std::result::Result<_, std::num::ParseIntError>>()?;
    }
    println!(
        "{:>5} {:>10} {:>14} {:>12} {:>12} {:>9} {:>10} {:>12}",
        "cores",
        "sim s/s",
        "events/request",
        "events/s",
        "handled/s",
        "ns/event",
        "mean ms",
        "bytes/task"
    );
    for cores in cores {
        println!("{}", measure(cores, requests)?);
    }
    Ok(())
}
