//! The computing server: a process with a pool of workers that answer requests.
//!
//! The connection is a Unix socket of sequenced packets, inherited as standard input (as under
//! inetd). All workers receive from it: the socket's queue is the one queue of requests, first in,
//! first out, and no dispatcher thread stands between a request and its worker. When the client
//! closes the connection, the server ends.
//!
//! There is one worker for each lane by default: what a server sized by the number of CPUs has. The
//! pool stays the same in all configurations.

use crate::error::{During, Error, Result};
use crate::sys::now_ns;
use nix::sys::socket::{MsgFlags, recv, send};
use sidelane_options::pricing;
use std::os::fd::{AsRawFd, RawFd};

/// A request: compute `units` units of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The client's number for it.
    pub id: u64,
    /// Demand in units of work.
    pub units: u64,
    /// Seed of the computation.
    pub seed: u64,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The request's number.
    pub id: u64,
    /// When a worker took the request, ns of the machine's monotonic clock.
    pub taken_ns: u64,
    /// When the result was there, ns of the machine's monotonic clock.
    pub completed_ns: u64,
    /// The result: see [`pricing::price_option`].
    pub price: u64,
}

/// Bytes of a request: three numbers, little endian.
pub const REQUEST_BYTES: usize = 24;
/// Bytes of a reply: four numbers, little endian.
pub const REPLY_BYTES: usize = 32;

impl Request {
    /// The packet.
    pub fn encode(self) -> [u8; REQUEST_BYTES] {
        encode([self.id, self.units, self.seed])
    }

    /// From a packet; `None` when its length is wrong.
    pub fn decode(packet: &[u8]) -> Option<Request> {
        let [id, units, seed] = decode(packet)?;
        Some(Request { id, units, seed })
    }
}

impl Reply {
    /// The packet.
    pub fn encode(self) -> [u8; REPLY_BYTES] {
        encode([self.id, self.taken_ns, self.completed_ns, self.price])
    }

    /// From a packet; `None` when its length is wrong.
    pub fn decode(packet: &[u8]) -> Option<Reply> {
        let [id, taken_ns, completed_ns, price] = decode(packet)?;
        Some(Reply {
            id,
            taken_ns,
            completed_ns,
            price,
        })
    }
}

fn encode<const COUNT: usize, const BYTES: usize>(numbers: [u64; COUNT]) -> [u8; BYTES] {
    let mut packet = [0; BYTES];
    for (slot, number) in packet.chunks_exact_mut(8).zip(numbers) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    packet
}

fn decode<const COUNT: usize>(packet: &[u8]) -> Option<[u64; COUNT]> {
    let (words, rest) = packet.as_chunks::<8>();
    let words: &[[u8; 8]; COUNT] = words.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_le_bytes))
}

/// Serves the connection on standard input with `workers` threads until the client closes it.
pub fn serve_standard_input(workers: usize) -> Result<()> {
    serve(std::io::stdin().as_raw_fd(), workers)
}

/// Serves a connection with `workers` threads until the client closes it.
pub fn serve(connection: RawFd, workers: usize) -> Result<()> {
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let start = |number| {
            let name = format!("worker-{number}");
            std::thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || work_on(connection))
        };
        let workers: Vec<_> = (0..workers).map(start).collect();
        let join = |worker: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<()>>>| {
            let worker = worker.during(|| "starting a worker".into())?;
            worker.join().unwrap_or_else(|_| {
                Err(Error::Process {
                    who: "the computing server",
                    reason: "panicked".into(),
                })
            })
        };
        workers.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

/// A worker: takes a request, computes, answers, until the connection is closed.
fn work_on(connection: RawFd) -> Result<()> {
    // One byte more than a request, to notice packets that are too long.
    let mut packet = [0; REQUEST_BYTES + 1];
    loop {
        let length = match recv(connection, &mut packet, MsgFlags::empty()) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(nix::errno::Errno::ECONNRESET) | Ok(0) => return Ok(()),
            other => other.during(|| "receiving a request".into())?,
        };
        let taken_ns = now_ns()?;
        let request = packet
            .get(..length)
            .and_then(Request::decode)
            .ok_or(Error::Process {
                who: "the computing server",
                reason: format!("got a packet of {length} bytes that is no request"),
            })?;
        let price = pricing::price_option(request.units, pricing::START_PRICE, request.seed);
        let reply = Reply {
            id: request.id,
            taken_ns,
            completed_ns: now_ns()?,
            price,
        };
        match send(connection, &reply.encode(), MsgFlags::MSG_NOSIGNAL) {
            Err(nix::errno::Errno::EPIPE) => return Ok(()),
            other => other.map(drop).during(|| "sending a reply".into())?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::connection_pair;

    #[test]
    fn packets_are_read_back_and_wrong_lengths_refused() {
        let request = Request {
            id: 1,
            units: u64::MAX,
            seed: 3,
        };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        let reply = Reply {
            id: 1,
            taken_ns: 2,
            completed_ns: 3,
            price: u64::MAX,
        };
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        assert_eq!(request.encode()[..9], [1, 0, 0, 0, 0, 0, 0, 0, 255]);
        assert_eq!(Request::decode(&[0; 23]), None);
        assert_eq!(Request::decode(&[0; 25]), None);
        assert_eq!(Reply::decode(&[0; 24]), None);
    }

    #[test]
    fn each_request_is_answered_once_with_its_own_result() {
        let (client, server) = connection_pair().unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || serve(server.as_raw_fd(), 3));
            for id in 0..50u64 {
                let request = Request {
                    id,
                    units: 10 + id,
                    seed: id,
                };
                send(client.as_raw_fd(), &request.encode(), MsgFlags::empty()).unwrap();
            }
            let mut answered = [false; 50];
            for _ in 0..50 {
                let mut packet = [0; REPLY_BYTES];
                recv(client.as_raw_fd(), &mut packet, MsgFlags::empty()).unwrap();
                let reply = Reply::decode(&packet).unwrap();
                let price = pricing::price_option(10 + reply.id, pricing::START_PRICE, reply.id);
                assert_eq!(reply.price, price);
                assert!(reply.taken_ns <= reply.completed_ns);
                assert!(!std::mem::replace(&mut answered[reply.id as usize], true));
            }
            drop(client);
            server.join().unwrap().unwrap();
        });
    }

    #[test]
    fn one_worker_answers_in_order() {
        let (client, server) = connection_pair().unwrap();
        for id in 0..20u64 {
            let request = Request {
                id,
                units: 100,
                seed: id,
            };
            send(client.as_raw_fd(), &request.encode(), MsgFlags::empty()).unwrap();
        }
        let worker = std::thread::spawn(move || serve(server.as_raw_fd(), 1));
        for id in 0..20u64 {
            let mut packet = [0; REPLY_BYTES];
            recv(client.as_raw_fd(), &mut packet, MsgFlags::empty()).unwrap();
            assert_eq!(Reply::decode(&packet).unwrap().id, id);
        }
        drop(client);
        worker.join().unwrap().unwrap();
    }

    #[test]
    fn nonsense_ends_the_server_with_an_error() {
        let (client, server) = connection_pair().unwrap();
        send(client.as_raw_fd(), b"GET / HTTP/1.0", MsgFlags::empty()).unwrap();
        let error = serve(server.as_raw_fd(), 1).unwrap_err();
        assert!(error.to_string().contains("14 bytes"), "{error}");
    }
}
