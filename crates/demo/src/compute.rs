//! The computing server's client: an open-loop generator.
//!
//! One thread sleeps until the intended moment of the next request, sends it, and takes the answers
//! that have come meanwhile; it never waits for one while requests are due. It is woken once for each
//! request and does nothing else, so as not to compete with what it measures. The latency of a
//! request is from the moment it *should* have been sent to the moment its result was there (the
//! server's time stamp, of the same clock): a late generator makes latencies longer, never shorter.

use crate::arrivals::Arrival;
use crate::error::{During, Error, Result};
use crate::server::{REPLY_BYTES, Reply, Request};
use crate::sys::{Guarded, now_ns, precise_timers, sleep_until_ns};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, recv, send, setsockopt, socketpair, sockopt,
};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// How long the answers that are still due after the last request may take, ms.
const DRAIN_PATIENCE_MS: u16 = 30_000;
/// Room for packets on their way, bytes (the kernel doubles it and counts some 800 a packet).
const SOCKET_BUFFER: usize = 4 << 20;

/// What a run of a client found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Latency of each request, ns.
    pub latency_ns: Vec<u64>,
    /// How late each request was sent, ns.
    pub late_ns: Vec<u64>,
    /// From sending each request until a worker took it, ns; empty where the server does not say.
    pub wait_ns: Vec<u64>,
    /// From taking each request until its result was there, ns; empty where the server does not say.
    pub service_ns: Vec<u64>,
    /// From the start of the run to the last answer, ns.
    pub elapsed_ns: u64,
}

/// A running server and the connection to it.
pub struct ComputeServer {
    connection: OwnedFd,
    process: Guarded,
}

impl ComputeServer {
    /// Starts `sidelane demo serve-compute` (the program at `sidelane`) with so many workers.
    pub fn start(sidelane: &std::path::Path, workers: usize) -> Result<ComputeServer> {
        let (connection, servers_end) = connection_pair()?;
        let mut command = Command::new(sidelane);
        command.args(["demo", "serve-compute", "--workers", &workers.to_string()]);
        command
            .stdin(Stdio::from(servers_end))
            .stdout(Stdio::null());
        let process = Guarded::spawn(&mut command, "the computing server")?;
        Ok(ComputeServer {
            connection,
            process,
        })
    }

    /// The server's process identifier.
    pub fn pid(&self) -> nix::unistd::Pid {
        self.process.pid()
    }

    /// Sends the requests of a schedule, each with its demand × `mean_units`; blocks until all are
    /// answered. `stop` is looked at before each request.
    pub fn run(
        &mut self,
        schedule: &[Arrival],
        mean_units: f64,
        stop: &AtomicBool,
    ) -> Result<Outcome> {
        let connection = &self.connection;
        // A thread of its own, so that it carries a name in traces.
        let generator = || generate(connection, schedule, mean_units, stop);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("generator".into());
            let thread = thread
                .spawn_scoped(scope, generator)
                .during(|| "starting".into())?;
            thread
                .join()
                .unwrap_or_else(|_| Err(failed("the generator panicked")))
        })
    }
}

/// The units of work of one arrival; at least one.
pub fn units_of(arrival: &Arrival, mean_units: f64) -> u64 {
    ((arrival.demand * mean_units) as u64).max(1)
}

/// Two connected ends: sequenced packets, room for a long queue.
pub fn connection_pair() -> Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
    let pair = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)
        .during(|| "making a connection".into())?;
    for end in [&pair.0, &pair.1] {
        // Beyond the system's limit with privilege only; without, the limit has to do.
        if setsockopt(end, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
            setsockopt(end, sockopt::SndBuf, &SOCKET_BUFFER).during(|| "a socket buffer".into())?;
        }
    }
    Ok(pair)
}

fn failed(reason: impl Into<String>) -> Error {
    Error::Process {
        who: "the computing server",
        reason: reason.into(),
    }
}

fn generate(
    connection: &OwnedFd,
    schedule: &[Arrival],
    mean_units: f64,
    stop: &AtomicBool,
) -> Result<Outcome> {
    precise_timers()?;
    // A little ahead, so that the first request is not late.
    let start_ns = now_ns()? + 2_000_000;
    let mut sent_ns = Vec::with_capacity(schedule.len());
    let mut replies = vec![None; schedule.len()];
    for (id, arrival) in schedule.iter().enumerate() {
        let intended_ns = start_ns + arrival.at_ns;
        sleep_until_ns(intended_ns)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        sent_ns.push(now_ns()?);
        let id = id as u64;
        let request = Request {
            id,
            units: units_of(arrival, mean_units),
            seed: id,
        };
        send(
            connection.as_raw_fd(),
            &request.encode(),
            MsgFlags::MSG_NOSIGNAL,
        )
        .during(|| "sending a request".into())?;
        while let Some(reply) = take_reply(connection)? {
            note(&mut replies, reply)?;
        }
    }
    drain(connection, &mut replies)?;
    let elapsed_ns = now_ns()? - start_ns;
    let mut outcome = Outcome {
        elapsed_ns,
        ..Outcome::default()
    };
    for ((arrival, sent_ns), reply) in schedule.iter().zip(sent_ns).zip(replies.iter().flatten()) {
        let intended_ns = start_ns + arrival.at_ns;
        let mut push = |to: fn(&mut Outcome) -> &mut Vec<u64>, until_ns: u64, from_ns: u64| {
            to(&mut outcome).push(until_ns.saturating_sub(from_ns));
        };
        push(|o| &mut o.latency_ns, reply.completed_ns, intended_ns);
        push(|o| &mut o.late_ns, sent_ns, intended_ns);
        push(|o| &mut o.wait_ns, reply.taken_ns, sent_ns);
        push(|o| &mut o.service_ns, reply.completed_ns, reply.taken_ns);
    }
    Ok(outcome)
}

/// Waits for the answers that are still due.
fn drain(connection: &OwnedFd, replies: &mut [Option<Reply>]) -> Result<()> {
    while replies.iter().any(Option::is_none) {
        let mut ready = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, PollTimeout::from(DRAIN_PATIENCE_MS)) {
            Err(Errno::EINTR) => continue,
            Ok(0) => {
                return Err(failed(
                    "requests are unanswered half a minute after the run",
                ));
            }
            other => other.during(|| "waiting for answers".into())?,
        };
        while let Some(reply) = take_reply(connection)? {
            note(replies, reply)?;
        }
    }
    Ok(())
}

/// An answer that is there already.
fn take_reply(connection: &OwnedFd) -> Result<Option<Reply>> {
    let mut packet = [0; REPLY_BYTES];
    match recv(connection.as_raw_fd(), &mut packet, MsgFlags::MSG_DONTWAIT) {
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
        Err(Errno::ECONNRESET) | Ok(0) => Err(failed("closed the connection")),
        other => {
            let length = other.during(|| "receiving an answer".into())?;
            let reply = packet.get(..length).and_then(Reply::decode);
            reply
                .map(Some)
                .ok_or_else(|| failed(format!("sent a packet of {length} bytes")))
        }
    }
}

/// Notes the reply to a request.
fn note(replies: &mut [Option<Reply>], reply: Reply) -> Result<()> {
    let slot = usize::try_from(reply.id)
        .ok()
        .and_then(|id| replies.get_mut(id));
    match slot {
        Some(slot @ None) => {
            *slot = Some(reply);
            Ok(())
        }
        _ => Err(failed(format!(
            "answered request {}, which is not due",
            reply.id
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals;

    fn against_server(schedule: &[Arrival], mean_units: f64, workers: usize) -> Outcome {
        let (client, server) = connection_pair().unwrap();
        let server = std::thread::spawn(move || crate::server::serve(server.as_raw_fd(), workers));
        let outcome = generate(&client, schedule, mean_units, &AtomicBool::new(false)).unwrap();
        drop(client);
        server.join().unwrap().unwrap();
        outcome
    }

    #[test]
    fn every_request_has_a_latency() {
        let schedule = arrivals::schedule(400.0, 250_000_000, 3);
        let outcome = against_server(&schedule, 500.0, 2);
        assert_eq!(outcome.latency_ns.len(), schedule.len());
        assert_eq!(outcome.late_ns.len(), schedule.len());
        let last_ns = schedule.last().unwrap().at_ns;
        assert!(outcome.elapsed_ns >= last_ns);
        assert!(
            outcome
                .latency_ns
                .iter()
                .all(|&ns| ns > 0 && ns < 10_000_000_000)
        );
    }

    #[test]
    fn waiting_counts_from_the_intended_moment() {
        // Ten requests at once to one worker: the later ones wait for the earlier ones.
        let schedule = [Arrival {
            at_ns: 0,
            demand: 1.0,
        }; 10];
        let outcome = against_server(&schedule, 20_000.0, 1);
        assert!(outcome.latency_ns.is_sorted());
        assert!(outcome.latency_ns[9] > 3 * outcome.latency_ns[0]);
    }

    #[test]
    fn a_server_that_goes_away_is_an_error() {
        let (client, server) = connection_pair().unwrap();
        drop(server);
        let schedule = [Arrival {
            at_ns: 0,
            demand: 1.0,
        }];
        assert!(generate(&client, &schedule, 1.0, &AtomicBool::new(false)).is_err());
    }

    #[test]
    fn stopping_is_asked_before_each_request() {
        let (client, _server) = connection_pair().unwrap();
        let schedule = [Arrival {
            at_ns: 0,
            demand: 1.0,
        }];
        let outcome = generate(&client, &schedule, 1.0, &AtomicBool::new(true));
        assert!(matches!(outcome, Err(Error::Interrupted)));
    }

    #[test]
    fn demands_become_units() {
        assert_eq!(
            units_of(
                &Arrival {
                    at_ns: 0,
                    demand: 1.5
                },
                1000.0
            ),
            1500
        );
        assert_eq!(
            units_of(
                &Arrival {
                    at_ns: 0,
                    demand: 0.0
                },
                1000.0
            ),
            1
        );
    }
}
