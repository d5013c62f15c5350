//! The server: a pool of workers that take requests from one socket.
//!
//! The socket's queue is the queue of requests, first in, first out: no dispatcher stands between a
//! request and its worker. A deadline counts from the moment at which the kernel received the request.

use crate::pricing::Pricing;
use crate::protocol::{MAX_BYTES, Reply, Request, from_fixed};
use crate::{Error, Result, during};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendto, setsockopt, sockopt,
};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use sidelane_runtime::Job;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Room for waiting requests, bytes (the kernel doubles it and counts some 800 a datagram).
const SOCKET_BUFFER: usize = 4 << 20;
/// How often a worker without a request looks whether to stop.
const LOOK: Duration = Duration::from_millis(500);
/// Paths between two looks at the clock: some microseconds.
const CHUNK_PATHS: u64 = 50;

/// What a server has done.
#[derive(Debug, Default)]
pub struct Totals {
    /// Requests with all their paths.
    pub complete: AtomicU64,
    /// Requests with a part of them, or none.
    pub incomplete: AtomicU64,
    /// Datagrams that were no requests.
    pub refused: AtomicU64,
}

/// Makes a socket fit for a server.
///
/// # Errors
/// The kernel refuses.
pub fn prepare(socket: &UdpSocket) -> Result<()> {
    // Beyond the system's limit with privilege only; without, the limit has to do.
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        setsockopt(socket, sockopt::RcvBuf, &SOCKET_BUFFER).map_err(during("a socket buffer"))?;
    }
    setsockopt(socket, sockopt::ReceiveTimestampns, &true).map_err(during("time stamps"))?;
    socket
        .set_read_timeout(Some(LOOK))
        .map_err(during("a time-out"))
}

/// Serves a prepared socket with `workers` threads until `stop` is set.
///
/// # Errors
/// The socket fails, or a thread cannot be started.
pub fn serve(socket: &UdpSocket, workers: usize, stop: &AtomicBool, totals: &Totals) -> Result<()> {
    std::thread::scope(|scope| {
        let start = |number| {
            std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn_scoped(scope, move || work(socket, stop, totals))
                .map_err(during("starting a worker"))
        };
        let workers = (0..workers).map(start).collect::<Result<Vec<_>>>()?;
        let panicked = || Error::Value("a worker panicked".into());
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            worker.join().unwrap_or_else(|_| Err(panicked()))
        };
        workers.into_iter().try_for_each(join)
    })
}

/// A worker: takes a request, computes, answers.
fn work(socket: &UdpSocket, stop: &AtomicBool, totals: &Totals) -> Result<()> {
    let mut bytes = [0; MAX_BYTES + 1];
    while !stop.load(Ordering::Relaxed) {
        let Some((length, client, waited)) = receive(socket, &mut bytes)? else {
            continue;
        };
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default());
        let mut job = None;
        let (answer, total) = match text.parse::<Request>() {
            Err(problem) => (format!("refused {problem}"), &totals.refused),
            Ok(request) => {
                let begun = *job.insert(begin(&request, waited)?);
                let reply = price(&request, begun);
                match reply.paths == reply.of {
                    true => (reply.to_string(), &totals.complete),
                    false => (reply.to_string(), &totals.incomplete),
                }
            }
        };
        total.fetch_add(1, Ordering::Relaxed);
        let (to, flags) = (&client, MsgFlags::MSG_NOSIGNAL);
        match sendto(socket.as_raw_fd(), answer.as_bytes(), to, flags) {
            // A client that has gone away is not this server's trouble.
            Err(Errno::ECONNREFUSED | Errno::EINTR) | Ok(_) => {}
            Err(error) => return Err(during("sending an answer")(error)),
        }
        // the next one may have come already: without the mark, both would look like one long job
        job.map(Job::end);
    }
    Ok(())
}

/// A datagram: its length, its sender, and how long it waited in the socket. None: there was none yet.
fn receive(
    socket: &UdpSocket,
    bytes: &mut [u8],
) -> Result<Option<(usize, SockaddrStorage, Duration)>> {
    let mut slices = [IoSliceMut::new(bytes)];
    let mut control = nix::cmsg_space!(TimeSpec);
    let message = match recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    ) {
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => return Ok(None),
        other => other.map_err(during("receiving a request"))?,
    };
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_err(during("reading the clock"))?;
    let received = message
        .cmsgs()
        .ok()
        .and_then(|mut messages| {
            messages.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(at) => Some(at),
                _ => None,
            })
        })
        .unwrap_or(now);
    let waited_ns = (now - received).num_nanoseconds().max(0).unsigned_abs();
    let waited = Duration::from_nanos(waited_ns);
    Ok(message
        .address
        .map(|client| (message.bytes, client, waited)))
}

/// The job of a request that arrived `waited` ago.
fn begin(request: &Request, waited: Duration) -> Result<Job> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(during("reading the clock"))?;
    let arrived_ns = now
        .num_nanoseconds()
        .unsigned_abs()
        .saturating_sub(nanoseconds(waited));
    let budget_ns = nanoseconds(Duration::from_micros(request.deadline_us));
    Ok(Job::begun_at(arrived_ns, budget_ns))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Prices an option, as far as its job gets.
fn price(request: &Request, job: Job) -> Reply {
    let mut pricing = Pricing::new(request.fixed_strike(), request.seed);
    while pricing.paths() < request.paths && !job.should_stop(0) {
        pricing.advance(CHUNK_PATHS.min(request.paths - pricing.paths()));
    }
    Reply {
        id: request.id,
        paths: pricing.paths(),
        of: request.paths,
        price: from_fixed(pricing.price()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Instant;

    fn request(paths: u64, deadline_us: u64) -> Request {
        Request {
            id: 1,
            paths,
            deadline_us,
            strike: 100.0,
            seed: 1,
        }
    }

    #[test]
    fn a_deadline_cuts_the_paths() {
        let now = Instant::now();
        let price = |request: Request, waited_ms| {
            let waited = Duration::from_millis(waited_ms);
            super::price(&request, begin(&request, waited).unwrap())
        };
        let whole = price(request(1000, 0), 0);
        assert_eq!((whole.paths, whole.of), (1000, 1000));
        let part = price(request(u64::MAX, 20_000), 10);
        assert!(part.paths > 0 && part.paths < part.of);
        assert!(now.elapsed() >= Duration::from_millis(10));
        let late = price(request(1000, 20_000), 1000);
        assert_eq!(late.paths, 0);
    }

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        prepare(&server).unwrap();
        let (stop, totals) = (AtomicBool::new(false), Totals::default());
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve(&server, 2, &stop, &totals));
            let ask = |text: &str| {
                client.send(text.as_bytes()).unwrap();
                let mut bytes = [0; MAX_BYTES];
                let length = client.recv(&mut bytes).unwrap();
                String::from_utf8(bytes[..length].to_vec()).unwrap()
            };
            let reply: Reply = ask(&request(5000, 0).to_string()).parse().unwrap();
            assert_eq!((reply.id, reply.paths, reply.of), (1, 5000, 5000));
            let fixed = crate::pricing::price_option(5000, crate::pricing::START_PRICE, 1);
            assert!((reply.price - from_fixed(fixed)).abs() < 1e-9);
            assert_eq!(ask("hello"), "refused expected 'price'");
            assert!(ask(&"x".repeat(2000)).starts_with("refused"));
            let late: Reply = ask(&request(u64::MAX, 1000).to_string()).parse().unwrap();
            assert!(late.paths < late.of);
            stop.store(true, Ordering::Relaxed);
            served.join().unwrap().unwrap();
        });
        let count = |total: &AtomicU64| total.load(Ordering::Relaxed);
        let counts = [&totals.complete, &totals.incomplete, &totals.refused].map(count);
        assert_eq!(counts, [1, 1, 2]);
    }
}
