//! The I/O-bound side, and the computing side.

use super::clients::Clients;
use super::{IoPlan, Work};
use crate::batch::{Batch, folder_in_memory};
use crate::error::{Error, Result};
use crate::redis::Redis;
use crate::vm::{Duty, Vm, VmPlan};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use sidelane_smt::latency::Summary;
use std::path::Path;

/// Who does I/O; stopped between runs.
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
    pub(super) fn start(plan: &IoPlan, sidelane: &Path, lanes: usize) -> Result<IoSide> {
        match plan.work {
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
                    duty: match wait_us {
                        Some(wait_us) => Duty::Device { turns, wait_us },
                        None => Duty::PingPong { turns },
                    },
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

/// Who computes, stopped: one process for each core at least, since their speed is measured on all at once.
pub(super) fn computing(
    plan: &IoPlan,
    sidelane: &Path,
    lanes: usize,
    cores: usize,
) -> Result<Batch> {
    let count = computing_count(plan, lanes).max(cores);
    match plan.work {
        Work::Processes { .. } => Batch::start_normal(count, plan.seed),
        Work::VirtualMachines { .. } => Batch::virtual_machines(count, sidelane),
    }
}

/// How many of them compute in a run.
pub(super) fn computing_count(plan: &IoPlan, lanes: usize) -> usize {
    plan.computing.map_or(lanes, |count| count as usize)
}

/// Of commands, and how many; none of players.
pub(super) fn summary(latency_ns: Option<Vec<u64>>) -> (u64, Option<Summary>) {
    match latency_ns {
        Some(mut latency_ns) => (latency_ns.len() as u64, Some(Summary::of(&mut latency_ns))),
        None => (0, None),
    }
}
