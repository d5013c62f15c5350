//! How fast the simulator's core is: an M/M/c queue on nothing but its events and random numbers.
//!
//! `cargo run --release -p sidelane-sim --example bench_mmc [CUSTOMERS]`
//!
//! An event is an arrival or a completion. The exact mean response stands beside the simulated one:
//! what is fast has to be right too. `benchmarks/simulators/run` compares it with other simulators.

#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]

use sidelane_sim::analytic::mms_response;
use sidelane_sim::{Distribution, Events, Stream};
use std::collections::VecDeque;
use std::time::Instant;

const SERVERS: u32 = 4;
const UTILIZATION: f64 = 0.8;
const MEAN_SERVICE_NS: f64 = 1e6;
const CUSTOMERS: u64 = 10_000_000;

enum Event {
    Arrival,
    /// Of the customer that arrived then, ns.
    Completion(u64),
}

struct Queue {
    events: Events<Event>,
    interarrival: Distribution,
    service: Distribution,
    arrivals: Stream,
    services: Stream,
    /// When those arrived that wait, ns.
    waiting: VecDeque<u64>,
    idle_servers: u32,
    /// Customers that have not arrived.
    to_come: u64,
    response_sum_ns: u128,
}

impl Queue {
    fn new(arrival_rate: f64, customers: u64) -> Queue {
        Queue {
            events: Events::default(),
            interarrival: Distribution::Exponential(1.0 / arrival_rate),
            service: Distribution::Exponential(MEAN_SERVICE_NS),
            arrivals: Stream::new(1, &[1]),
            services: Stream::new(1, &[2]),
            waiting: VecDeque::new(),
            idle_servers: SERVERS,
            to_come: customers,
            response_sum_ns: 0,
        }
    }

    /// Goes on until all customers have left; the number of events that took.
    fn run(&mut self) -> u64 {
        let mut handled = 0;
        self.plan_arrival();
        while let Some(event) = self.events.take(u64::MAX) {
            handled += 1;
            match event {
                Event::Arrival => self.arrive(),
                Event::Completion(arrived_ns) => self.complete(arrived_ns),
            }
        }
        handled
    }

    fn plan_arrival(&mut self) {
        if self.to_come == 0 {
            return;
        }
        self.to_come -= 1;
        let after_ns = rounded(self.interarrival.sample(&mut self.arrivals));
        self.events
            .add(self.events.now_ns() + after_ns, Event::Arrival);
    }

    fn arrive(&mut self) {
        let now_ns = self.events.now_ns();
        if self.idle_servers > 0 {
            self.idle_servers -= 1;
            self.serve(now_ns);
        } else {
            self.waiting.push_back(now_ns);
        }
        self.plan_arrival();
    }

    fn serve(&mut self, arrived_ns: u64) {
        let after_ns = rounded(self.service.sample(&mut self.services));
        self.events.add(
            self.events.now_ns() + after_ns,
            Event::Completion(arrived_ns),
        );
    }

    fn complete(&mut self, arrived_ns: u64) {
        self.response_sum_ns += u128::from(self.events.now_ns() - arrived_ns);
        match self.waiting.pop_front() {
            Some(arrived_ns) => self.serve(arrived_ns),
            None => self.idle_servers += 1,
        }
    }
}

fn rounded(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

fn main() {
    let argument = std::env::args().nth(1);
    let customers = match argument.as_deref().map(str::parse) {
        None => CUSTOMERS,
        Some(Ok(customers)) if customers > 0 => customers,
        Some(_) => {
            eprintln!("usage: bench_mmc [CUSTOMERS]");
            std::process::exit(2);
        }
    };
    let arrival_rate = UTILIZATION * f64::from(SERVERS) / MEAN_SERVICE_NS;
    let mut queue = Queue::new(arrival_rate, customers);
    let began = Instant::now();
    let handled = queue.run();
    let seconds = began.elapsed().as_secs_f64();
    let response = queue.response_sum_ns as f64 / customers as f64 / MEAN_SERVICE_NS;
    let exact = mms_response(UTILIZATION * f64::from(SERVERS), 1.0, SERVERS).unwrap_or(f64::NAN);
    println!(
        "events {handled} seconds {seconds:.6} events/s {:.0} response {response:.4} exact {exact:.4}",
        handled as f64 / seconds,
    );
}
