//! Clients of which each sends its next command when it has the reply to the last one.

use crate::clock::now_ns;
use crate::error::{During, Error, Result};
use crate::redis::{Redis, get};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Running clients; they end when this value goes.
pub(super) struct Clients {
    threads: Vec<JoinHandle<Result<Vec<RoundTrip>>>>,
    stop: Arc<AtomicBool>,
}

/// A command and its reply.
#[derive(Debug, Clone, Copy)]
struct RoundTrip {
    sent_ns: u64,
    replied_ns: u64,
}

impl Clients {
    /// Starts a thread for each connection.
    pub(super) fn start(redis: &mut Redis, connections: u32) -> Result<Clients> {
        let mut clients = Clients {
            threads: Vec::new(),
            stop: Arc::default(),
        };
        for number in 0..connections {
            let (connection, stop) = (redis.connect()?, clients.stop.clone());
            let thread = Builder::new().name(format!("redis-client{number}"));
            let thread = thread.spawn(move || round_trips(connection, &stop));
            clients
                .threads
                .push(thread.during(|| "starting a client".into())?);
        }
        Ok(clients)
    }

    /// Ends them; the latencies of the commands sent since a moment, ns, in no order.
    pub(super) fn end(mut self, since_ns: u64) -> Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut latency_ns = Vec::new();
        for thread in self.threads.drain(..) {
            let panicked = |_| Error::Process {
                who: "a client of redis",
                reason: "panicked".into(),
            };
            let trips = thread.join().map_err(panicked)??;
            let counted = trips.iter().filter(|trip| trip.sent_ns >= since_ns);
            latency_ns.extend(counted.map(|trip| trip.replied_ns.saturating_sub(trip.sent_ns)));
        }
        Ok(latency_ns)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn round_trips(mut connection: TcpStream, stop: &AtomicBool) -> Result<Vec<RoundTrip>> {
    let mut trips = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let sent_ns = now_ns()?;
        get(&mut connection, trips.len())?;
        trips.push(RoundTrip {
            sent_ns,
            replied_ns: now_ns()?,
        });
    }
    Ok(trips)
}
