//! The I/O-bound side with its clients, and the computing side.

use super::Work;
use crate::batch::{Batch, folder_in_memory};
use crate::error::{During, Error, Result};
use crate::redis::{Redis, get};
use crate::sys::now_ns;
use crate::vm::{Duty, Vm, VmPlan};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use sidelane_smt::latency::Summary;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// What does I/O; stopped between runs.
pub(super) enum IoSide {
    /// With its clients while they run.
    Redis {
        server: Redis,
        connections: u32,
        clients: Option<Clients>,
    },
    /// Its memory is a file in the folder.
    Players { vm: Vm, _folder: tempfile::TempDir },
}

impl IoSide {
    pub(super) fn start(work: Work, sidelane: &Path, lanes: usize) -> Result<IoSide> {
        match work {
            Work::Processes { connections } => Ok(IoSide::Redis {
                server: Redis::start()?,
                connections,
                clients: None,
            }),
            Work::VirtualMachines {
                players,
                turns,
                wait_us,
            } => {
                let folder = folder_in_memory()?;
                let machine = VmPlan {
                    vcpus: players.unwrap_or((lanes as u32).next_multiple_of(2)),
                    duty: Duty::new(Some(turns), wait_us),
                    memory: folder.path().join("players"),
                };
                let vm = Vm::start(sidelane, &machine)?;
                vm.process().signal(Signal::SIGSTOP)?;
                Ok(IoSide::Players {
                    vm,
                    _folder: folder,
                })
            }
        }
    }

    /// Lets it work.
    pub(super) fn begin(&mut self) -> Result<()> {
        match self {
            IoSide::Redis {
                server,
                connections,
                clients,
            } => {
                *clients = Some(Clients::start(server, *connections)?);
                Ok(())
            }
            IoSide::Players { vm, .. } => vm.process().signal(Signal::SIGCONT),
        }
    }

    /// Round trips so far, if they are counted before the end.
    pub(super) fn round_trips(&self) -> Result<u64> {
        match self {
            IoSide::Redis { .. } => Ok(0),
            IoSide::Players { vm, .. } => vm.work_done(),
        }
    }

    /// Processes that do I/O, and that with its clients.
    pub(super) fn pids(&self) -> Vec<Pid> {
        match self {
            IoSide::Redis { server, .. } => vec![server.pid(), Pid::this()],
            IoSide::Players { vm, .. } => vec![vm.process().pid()],
        }
    }

    /// Stops it; latencies of the commands since a moment, if there are commands.
    pub(super) fn end(&mut self, since_ns: u64) -> Result<Option<Vec<u64>>> {
        match self {
            IoSide::Redis { clients, .. } => match clients.take() {
                Some(clients) => clients.end(since_ns).map(Some),
                None => Err(Error::Incomplete("there are no clients".into())),
            },
            IoSide::Players { vm, .. } => {
                vm.process().signal(Signal::SIGSTOP)?;
                Ok(None)
            }
        }
    }
}

/// So many processes that compute, stopped.
pub(super) fn computing(work: Work, count: usize, seed: u64, sidelane: &Path) -> Result<Batch> {
    match work {
        Work::Processes { .. } => Batch::start_normal(count, seed),
        Work::VirtualMachines { .. } => Batch::virtual_machines(count, sidelane),
    }
}

/// Of commands, and how many; none of players.
pub(super) fn summary(latency_ns: Option<Vec<u64>>) -> (u64, Option<Summary>) {
    match latency_ns {
        Some(mut latency_ns) => (latency_ns.len() as u64, Some(Summary::of(&mut latency_ns))),
        None => (0, None),
    }
}

/// Clients of which each sends its next command when it has the reply to the last one; they end when this value goes.
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
    fn start(redis: &mut Redis, connections: u32) -> Result<Clients> {
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
    fn end(mut self, since_ns: u64) -> Result<Vec<u64>> {
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
