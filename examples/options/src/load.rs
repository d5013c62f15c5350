//! The load generator: open loop, so that a slow server does not slow the requests down.

use crate::protocol::{MAX_BYTES, Reply, Request};
use crate::requests::{BoundedPareto, Profile};
use crate::{Error, Result, during};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long after the last deadline answers may come.
const PATIENCE: Duration = Duration::from_secs(5);
/// Concavity of the quality profile: FOF's.
const CONCAVITY: f64 = 3.0;
const STRIKE: f64 = 100.0;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Requests a second, above 0.
    pub rate_per_s: f64,
    /// For how long, ms.
    pub run_ms: u64,
    /// The beginning that does not count, ms.
    pub settle_ms: u64,
    /// Mean number of paths, above 0; they are spread like [`BoundedPareto::default`].
    pub mean_paths: f64,
    /// Deadline of each request, µs.
    pub deadline_us: u64,
    /// Start of all random numbers.
    pub seed: u64,
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Requests that count.
    pub requests: u64,
    /// Those of them that were not complete at their deadline.
    pub missed: u64,
    /// Those of them that were never answered: the socket's queue was full.
    pub lost: u64,
    /// Mean quality, 0 to 1; of a lost request 0.
    pub quality: f64,
    /// Latency of the answers at the client, from the intended moment, ns.
    pub latency: Summary,
}

struct Planned {
    at: Duration,
    paths: u64,
}

/// A request's fate: when it was answered, from how many paths.
type Answer = Option<(Duration, u64)>;

impl Load {
    fn plan(&self) -> Vec<Planned> {
        let demand = BoundedPareto::default();
        let scale = self.mean_paths / demand.mean();
        // A generator each: another rate does not change the demands.
        let mut gaps = Pcg64Mcg::seed_from_u64(self.seed);
        let mut demands = Pcg64Mcg::seed_from_u64(!self.seed);
        let run = Duration::from_millis(self.run_ms);
        let mut at = Duration::ZERO;
        let next = || {
            let gap: f64 = Exp1.sample(&mut gaps);
            at += Duration::from_secs_f64((gap / self.rate_per_s).min(self.run_ms as f64));
            let paths = (demand.sample(&mut demands) * scale).max(1.0) as u64;
            (at < run).then_some(Planned { at, paths })
        };
        std::iter::from_fn(next).collect()
    }

    fn profile(&self) -> Profile {
        let demand = BoundedPareto::default();
        Profile {
            concavity: CONCAVITY,
            full: demand.max * self.mean_paths / demand.mean(),
        }
    }

    fn outcome(&self, plan: &[Planned], answers: &[Answer]) -> Outcome {
        let settled = Duration::from_millis(self.settle_ms);
        let counted = || {
            let all = plan.iter().zip(answers);
            all.filter(|(planned, _)| planned.at >= settled)
        };
        let profile = self.profile();
        let quality: f64 = counted()
            .filter_map(|(planned, answer)| {
                Some(profile.quality(answer.as_ref()?.1, planned.paths))
            })
            .sum();
        let complete = |(planned, answer): &(&Planned, &Answer)| {
            answer.is_some_and(|(_, paths)| paths >= planned.paths)
        };
        let mut latency_ns: Vec<u64> = counted()
            .filter_map(|(planned, answer)| Some(answer.as_ref()?.0.saturating_sub(planned.at)))
            .map(|latency| u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX))
            .collect();
        let requests = counted().count() as u64;
        Outcome {
            requests,
            missed: requests - counted().filter(complete).count() as u64,
            lost: requests - latency_ns.len() as u64,
            quality: quality / requests.max(1) as f64,
            latency: Summary::of(&mut latency_ns),
        }
    }
}

/// Sends the load through a socket that is connected to the server.
///
/// # Errors
/// The load makes no sense, the socket fails, or the server answers nonsense.
pub fn run(socket: &UdpSocket, load: &Load, stop: &AtomicBool) -> Result<Outcome> {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    if !positive(load.rate_per_s) || !positive(load.mean_paths) {
        return Err(Error::Value(format!(
            "a rate of {} a second, {} paths; both are above 0",
            load.rate_per_s, load.mean_paths
        )));
    }
    let plan = load.plan();
    let mut answers: Vec<Answer> = vec![None; plan.len()];
    let mut due = plan.len();
    prctl::set_timerslack(1).map_err(during("the timer slack"))?;
    socket
        .set_nonblocking(true)
        .map_err(during("a socket that does not block"))?;
    let start = Instant::now();
    for (id, planned) in plan.iter().enumerate() {
        take_answers(socket, start, start + planned.at, &mut answers, &mut due)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let request = Request {
            id: id as u64,
            paths: planned.paths,
            deadline_us: load.deadline_us,
            strike: STRIKE,
            seed: id as u64,
        };
        let sent = socket.send(request.to_string().as_bytes());
        sent.map_err(during("sending a request"))?;
    }
    let end = Instant::now() + Duration::from_micros(load.deadline_us) + PATIENCE;
    take_answers(socket, start, end, &mut answers, &mut due)?;
    Ok(load.outcome(&plan, &answers))
}

/// Takes answers until a moment, or until none is due.
fn take_answers(
    socket: &UdpSocket,
    start: Instant,
    until: Instant,
    answers: &mut [Answer],
    due: &mut usize,
) -> Result<()> {
    let mut bytes = [0; MAX_BYTES];
    while *due > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut ready, Some(TimeSpec::from_duration(left)), None) {
            Ok(0) | Err(Errno::EINTR) => continue,
            other => other.map_err(during("waiting for answers"))?,
        };
        let length = match socket.recv(&mut bytes) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(during("receiving an answer")(error)),
        };
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        let reply: Reply = text.parse().map_err(|_| Error::Answer(text.to_string()))?;
        let slot = usize::try_from(reply.id)
            .ok()
            .and_then(|id| answers.get_mut(id));
        match slot {
            Some(slot @ None) => *slot = Some((start.elapsed(), reply.paths)),
            _ => return Err(Error::Answer(text.to_string())),
        }
        *due -= 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{self, Totals};
    use std::net::Ipv4Addr;

    const LOAD: Load = Load {
        rate_per_s: 200.0,
        run_ms: 300,
        settle_ms: 100,
        mean_paths: 500.0,
        deadline_us: 2_000_000,
        seed: 1,
    };

    fn against_server(load: &Load) -> Result<Outcome> {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        server::prepare(&server).unwrap();
        let (stop, totals) = (AtomicBool::new(false), Totals::default());
        std::thread::scope(|scope| {
            scope.spawn(|| server::serve(&server, 2, &stop, &totals));
            let outcome = run(&client, load, &AtomicBool::new(false));
            stop.store(true, Ordering::Relaxed);
            outcome
        })
    }

    #[test]
    fn with_time_enough_everything_is_complete() {
        let outcome = against_server(&LOAD).unwrap();
        let plan = LOAD.plan();
        let counts = |planned: &&Planned| planned.at >= Duration::from_millis(100);
        let expected = plan.iter().filter(counts);
        assert_eq!(outcome.requests, expected.count() as u64);
        assert!(outcome.requests > 20, "{outcome:?}");
        assert_eq!((outcome.missed, outcome.lost), (0, 0));
        assert!((outcome.quality - 1.0).abs() < 1e-9);
        assert!(outcome.latency.p50_ns > 0);
    }

    #[test]
    fn with_too_little_it_is_not() {
        let outcome = against_server(&Load {
            mean_paths: 1e9,
            deadline_us: 10_000,
            ..LOAD
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.missed, outcome.requests);
        assert!(outcome.quality < 0.1, "{outcome:?}");
    }

    #[test]
    fn lost_requests_are_worth_nothing() {
        let plan: Vec<Planned> = [(50, 100), (150, 100), (200, 100), (250, 400)]
            .map(|(at, paths)| Planned {
                at: Duration::from_millis(at),
                paths,
            })
            .into();
        let at = Duration::from_millis(260);
        let outcome = LOAD.outcome(&plan, &[None, Some((at, 100)), None, Some((at, 0))]);
        assert_eq!((outcome.requests, outcome.missed, outcome.lost), (3, 2, 1));
        assert!((outcome.quality - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn senseless_loads_and_servers_are_refused() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stop = AtomicBool::new(false);
        let load = Load {
            rate_per_s: f64::NAN,
            ..LOAD
        };
        assert!(matches!(run(&socket, &load, &stop), Err(Error::Value(_))));
        let echo = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(echo.local_addr().unwrap()).unwrap();
        echo.connect(socket.local_addr().unwrap()).unwrap();
        echo.send(b"GO AWAY").unwrap();
        assert!(
            matches!(run(&socket, &LOAD, &stop), Err(Error::Answer(text)) if text == "GO AWAY")
        );
    }
}
