//! The M/M/c queue of the comparison, on nexosim: one model that schedules its own arrivals and
//! completions, on one thread. Its events pass no port, which is the cheapest that nexosim offers.

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSinkReader, Output, SinkState, event_slot};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

const SERVERS: u32 = 4;
const UTILIZATION: f64 = 0.8;
const MEAN_SERVICE_NS: f64 = 1e6;

#[derive(Serialize, Deserialize)]
struct Queue {
    /// Sum of all responses, ns, once the last customer has left.
    response_sum_ns: Output<u64>,
    customers: u64,
    arrived: u64,
    completed: u64,
    idle_servers: u32,
    waiting: VecDeque<MonotonicTime>,
    sum_ns: u64,
    arrivals: Pcg64,
    services: Pcg64,
}

#[Model]
impl Queue {
    fn new(customers: u64) -> Queue {
        Queue {
            response_sum_ns: Output::default(),
            customers,
            arrived: 0,
            completed: 0,
            idle_servers: SERVERS,
            waiting: VecDeque::new(),
            sum_ns: 0,
            arrivals: Pcg64::seed_from_u64(1),
            services: Pcg64::seed_from_u64(2),
        }
    }

    #[nexosim(init)]
    async fn init(&mut self, context: &Context<Self>) {
        self.plan_arrival(context);
    }

    fn plan_arrival(&mut self, context: &Context<Self>) {
        let mean_ns = MEAN_SERVICE_NS / UTILIZATION / f64::from(SERVERS);
        let after = exponential(mean_ns, &mut self.arrivals);
        let scheduled = context.schedule_event(after, schedulable!(Self::arrive), ());
        scheduled.expect("the time is in the future");
    }

    #[nexosim(schedulable)]
    async fn arrive(&mut self, _: (), context: &Context<Self>) {
        self.arrived += 1;
        if self.idle_servers > 0 {
            self.idle_servers -= 1;
            self.serve(context.time(), context);
        } else {
            self.waiting.push_back(context.time());
        }
        if self.arrived < self.customers {
            self.plan_arrival(context);
        }
    }

    fn serve(&mut self, arrived: MonotonicTime, context: &Context<Self>) {
        let after = exponential(MEAN_SERVICE_NS, &mut self.services);
        let scheduled = context.schedule_event(after, schedulable!(Self::complete), arrived);
        scheduled.expect("the time is in the future");
    }

    #[nexosim(schedulable)]
    async fn complete(&mut self, arrived: MonotonicTime, context: &Context<Self>) {
        self.completed += 1;
        self.sum_ns += context.time().duration_since(arrived).as_nanos() as u64;
        match self.waiting.pop_front() {
            Some(arrived) => self.serve(arrived, context),
            None => self.idle_servers += 1,
        }
        if self.completed == self.customers {
            self.response_sum_ns.send(self.sum_ns).await;
        }
    }
}

/// An exponential time, at least 1 ns, since nothing can be scheduled for now.
fn exponential(mean_ns: f64, random: &mut Pcg64) -> Duration {
    let uniform: f64 = random.random();
    let ns = -mean_ns * (1.0 - uniform).ln();
    Duration::from_nanos((ns + 0.5) as u64).max(Duration::from_nanos(1))
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1);
    let customers: u64 = argument.ok_or("usage: mmc-nexosim CUSTOMERS")?.parse()?;
    let mut queue = Queue::new(customers);
    let (sink, mut result) = event_slot(SinkState::Enabled);
    queue.response_sum_ns.connect_sink(sink);
    let bench = SimInit::with_num_threads(1).add_model(queue, Mailbox::new(), "queue");
    let mut simulation = bench.init(MonotonicTime::EPOCH)?;
    let began = Instant::now();
    simulation.run()?;
    let seconds = began.elapsed().as_secs_f64();
    let sum_ns = result.try_read().ok_or("the simulation ended too early")?;
    let response = sum_ns as f64 / customers as f64 / MEAN_SERVICE_NS;
    println!(
        "events {} seconds {seconds:.6} response {response:.4}",
        2 * customers
    );
    Ok(())
}
