//! redis-server under an open-loop client.
//!
//! The commands are those of a cache with a feed: 60 % `GET` and 25 % `SET` of 256-byte values
//! among 1000 keys, and 15 % `LRANGE` of a list of 600 entries, which takes redis many times as long
//! as the others. They come at exponential intervals whether or not earlier ones were answered, in
//! turn over a few pipelined connections on the loopback interface. The latency of a command is from
//! the moment it should have been sent to the moment the client has the whole reply.

use crate::arrivals::{self, Arrival};
use crate::compute::Outcome;
use crate::error::{During, Error, Result};
use crate::resp::{Replies, command};
use crate::sys::{Guarded, cpu_time_ns, find_program, now_ns, precise_timers};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::Signal;
use nix::sys::time::{TimeSpec, TimeValLike};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Different keys.
const KEYS: u32 = 1000;
/// Bytes of a value.
const VALUE_BYTES: usize = 256;
/// Entries of the list that `LRANGE` reads.
const LIST_ENTRIES: usize = 600;
/// Share of `GET` and of `SET` among the commands; the rest is `LRANGE`.
const GET_SHARE: f64 = 0.60;
const SET_SHARE: f64 = 0.25;
/// Connections of the client.
const CONNECTIONS: usize = 4;
/// Commands of the calibration.
const CALIBRATION_COMMANDS: usize = 600;
/// How long redis may take to come up, and the last answers to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running redis-server with its data.
pub struct Redis {
    process: Guarded,
    port: u16,
}

impl Redis {
    /// Starts redis-server without persistence on a free port of the loopback interface, and fills it.
    pub fn start() -> Result<Redis> {
        let program = find_program("redis-server").ok_or(MISSING)?;
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
        ]);
        command.args(["--appendonly", "no", "--hz", "1", "--loglevel", "warning"]);
        command
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let process = Guarded::spawn(&mut command, "redis-server")?;
        let mut redis = Redis { process, port };
        let mut connection = redis.connect()?;
        fill(&mut connection)?;
        Ok(redis)
    }

    /// The server's process identifier.
    pub fn pid(&self) -> nix::unistd::Pid {
        self.process.pid()
    }

    /// Stops the server where it stands, so that its housekeeping disturbs nothing.
    pub fn pause(&self) -> Result<()> {
        self.process.signal(Signal::SIGSTOP)
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<()> {
        self.process.signal(Signal::SIGCONT)
    }

    /// The time that the server has spent on lanes since it started, ns.
    pub fn cpu_time_ns(&self) -> Result<u64> {
        cpu_time_ns(self.pid())
    }

    /// The mean time on a lane of one command of the mix, ns: measured with one command after the
    /// other, so on an otherwise idle machine the time on a core of its own.
    pub fn calibrate(&mut self, seed: u64) -> Result<f64> {
        let schedule = vec![
            Arrival {
                at_ns: 0,
                demand: 1.0
            };
            CALIBRATION_COMMANDS
        ];
        let mut connection = self.connect()?;
        let before_ns = self.cpu_time_ns()?;
        for command in commands(&schedule, seed) {
            ask(&mut connection, &command)?;
        }
        Ok((self.cpu_time_ns()? - before_ns) as f64 / CALIBRATION_COMMANDS as f64)
    }

    /// Sends commands at `rate_per_s` for `run_ns`; blocks until all are answered. `stop` is looked at
    /// before each.
    pub fn run(
        &mut self,
        rate_per_s: f64,
        run_ns: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Outcome> {
        let schedule = arrivals::schedule(rate_per_s, run_ns, seed);
        let commands = commands(&schedule, seed);
        let streams = (0..CONNECTIONS)
            .map(|_| self.connect())
            .collect::<Result<Vec<_>>>()?;
        let client = move || Client::new(streams)?.run(&schedule, &commands, stop);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("redis-client".into());
            let thread = thread
                .spawn_scoped(scope, client)
                .during(|| "starting".into())?;
            thread
                .join()
                .unwrap_or_else(|_| Err(failed("the client panicked")))
        })
    }

    /// A new connection; waits while the server comes up.
    pub(crate) fn connect(&mut self) -> Result<TcpStream> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
                Ok(stream) => {
                    stream.set_nodelay(true).during(|| "a connection".into())?;
                    stream
                        .set_read_timeout(Some(PATIENCE))
                        .during(|| "a connection".into())?;
                    return Ok(stream);
                }
                Err(source) if Instant::now() > deadline => {
                    return Err(Error::Io {
                        what: "connecting to redis-server".into(),
                        source,
                    });
                }
                Err(_) if self.process.ended_within(Duration::ZERO)? => {
                    return Err(failed("ended instead of serving"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

/// What to say when it is not there.
pub const MISSING: Error = Error::MissingProgram {
    program: "redis-server",
    package: "redis-server",
    or: ", or leave it out with --workloads compute",
};

fn failed(reason: impl Into<String>) -> Error {
    Error::Process {
        who: "redis-server",
        reason: reason.into(),
    }
}

/// A port that nobody listens on.
fn free_port() -> Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .during(|| "looking for a free port on 127.0.0.1 (is the loopback interface up?)".into())
}

/// Sends one command and waits for its reply.
fn ask(connection: &mut TcpStream, command: &[u8]) -> Result<()> {
    connection
        .write_all(command)
        .during(|| "sending to redis-server".into())?;
    let mut replies = Replies::default();
    let mut buffer = [0; 16 * 1024];
    while !replies.take().map_err(|error| failed(error.to_string()))? {
        let length = connection
            .read(&mut buffer)
            .during(|| "reading from redis-server".into())?;
        if length == 0 {
            return Err(failed("closed the connection"));
        }
        replies.push(buffer.get(..length).unwrap_or_default());
    }
    Ok(())
}

/// Reads a value and waits for it; keys are read in turn.
pub(crate) fn get(connection: &mut TcpStream, turn: usize) -> Result<()> {
    let number = turn % KEYS as usize;
    ask(connection, &command(&[b"GET", &key(number as u32)]))
}

/// Puts all keys and the list there.
fn fill(connection: &mut TcpStream) -> Result<()> {
    let value = [b'v'; VALUE_BYTES];
    let mut mset: Vec<Vec<u8>> = vec![b"MSET".to_vec()];
    for number in 0..KEYS {
        mset.extend([key(number), value.to_vec()]);
    }
    let mut push: Vec<Vec<u8>> = vec![b"RPUSH".to_vec(), b"feed".to_vec()];
    push.extend((0..LIST_ENTRIES).map(|number| format!("entry-{number:06}").into_bytes()));
    for words in [mset, push] {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        ask(connection, &command(&words))?;
    }
    Ok(())
}

fn key(number: u32) -> Vec<u8> {
    format!("key:{number:06}").into_bytes()
}

/// The command of each arrival.
fn commands(schedule: &[Arrival], seed: u64) -> Vec<Vec<u8>> {
    let mut random = Pcg64Mcg::seed_from_u64(seed.rotate_left(32));
    let value = [b'w'; VALUE_BYTES];
    let mut one = |_: &Arrival| {
        let (kind, number) = (random.random::<f64>(), random.random_range(0..KEYS));
        if kind < GET_SHARE {
            command(&[b"GET", &key(number)])
        } else if kind < GET_SHARE + SET_SHARE {
            command(&[b"SET", &key(number), &value])
        } else {
            command(&[b"LRANGE", b"feed", b"0", b"-1"])
        }
    };
    schedule.iter().map(&mut one).collect()
}

/// One pipelined connection.
struct Pipe {
    stream: TcpStream,
    replies: Replies,
    /// The commands that are under way, oldest first.
    due: VecDeque<usize>,
}

/// The client's thread: sends when it is time, reads when something comes.
struct Client {
    pipes: Vec<Pipe>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(streams: Vec<TcpStream>) -> Result<Client> {
        precise_timers()?;
        let mut pipes = Vec::new();
        for stream in streams {
            stream
                .set_nonblocking(true)
                .during(|| "a connection".into())?;
            pipes.push(Pipe {
                stream,
                replies: Replies::default(),
                due: VecDeque::new(),
            });
        }
        Ok(Client {
            pipes,
            buffer: vec![0; 64 * 1024],
        })
    }

    fn run(
        mut self,
        schedule: &[Arrival],
        commands: &[Vec<u8>],
        stop: &AtomicBool,
    ) -> Result<Outcome> {
        let start_ns = now_ns()? + 2_000_000;
        let mut outcome = Outcome {
            latency_ns: vec![0; schedule.len()],
            ..Outcome::default()
        };
        for (id, (arrival, command)) in schedule.iter().zip(commands).enumerate() {
            let intended_ns = start_ns + arrival.at_ns;
            self.read_until(intended_ns, start_ns, schedule, &mut outcome)?;
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            outcome.late_ns.push(now_ns()?.saturating_sub(intended_ns));
            self.send(id, command)?;
        }
        let deadline_ns = now_ns()? + PATIENCE.as_nanos() as u64;
        while self.pipes.iter().any(|pipe| !pipe.due.is_empty()) {
            self.wait(deadline_ns)?;
            self.read_all(start_ns, schedule, &mut outcome)?;
            if now_ns()? > deadline_ns {
                return Err(failed(
                    "commands are unanswered half a minute after the run",
                ));
            }
        }
        outcome.elapsed_ns = now_ns()? - start_ns;
        Ok(outcome)
    }

    /// Sends a command on the connection whose turn it is.
    fn send(&mut self, id: usize, command: &[u8]) -> Result<()> {
        let turn = id % self.pipes.len().max(1);
        let pipe = self
            .pipes
            .get_mut(turn)
            .ok_or_else(|| failed("has no connection"))?;
        pipe.due.push_back(id);
        // Commands are below 400 bytes: they fit into the socket unless thousands are under way.
        pipe.stream
            .write_all(command)
            .during(|| "sending to redis-server".into())
    }

    /// Reads what comes until a moment.
    fn read_until(
        &mut self,
        moment_ns: u64,
        start_ns: u64,
        schedule: &[Arrival],
        outcome: &mut Outcome,
    ) -> Result<()> {
        while now_ns()? < moment_ns {
            if self.wait(moment_ns)? {
                self.read_all(start_ns, schedule, outcome)?;
            }
        }
        Ok(())
    }

    /// Sleeps until a moment or until something comes; says whether something came.
    fn wait(&self, moment_ns: u64) -> Result<bool> {
        let due = self.pipes.iter().filter(|pipe| !pipe.due.is_empty());
        let mut ready: Vec<PollFd<'_>> = due
            .map(|pipe| PollFd::new(pipe.stream.as_fd(), PollFlags::POLLIN))
            .collect();
        let left_ns = moment_ns.saturating_sub(now_ns()?);
        let left = TimeSpec::nanoseconds(i64::try_from(left_ns).unwrap_or(i64::MAX));
        match ppoll(&mut ready, Some(left), None) {
            Ok(count) => Ok(count > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error).during(|| "waiting for redis-server".into()),
        }
    }

    /// Reads everything that has come.
    fn read_all(
        &mut self,
        start_ns: u64,
        schedule: &[Arrival],
        outcome: &mut Outcome,
    ) -> Result<()> {
        for pipe in self.pipes.iter_mut().filter(|pipe| !pipe.due.is_empty()) {
            let length = match pipe.stream.read(&mut self.buffer) {
                Ok(0) => return Err(failed("closed the connection")),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
                other => other.during(|| "reading from redis-server".into())?,
            };
            let came_ns = now_ns()?;
            pipe.replies
                .push(self.buffer.get(..length).unwrap_or_default());
            while pipe
                .replies
                .take()
                .map_err(|error| failed(error.to_string()))?
            {
                let id = pipe
                    .due
                    .pop_front()
                    .ok_or_else(|| failed("answered unasked"))?;
                let arrival = schedule.get(id).map_or(0, |arrival| arrival.at_ns);
                if let Some(latency_ns) = outcome.latency_ns.get_mut(id) {
                    *latency_ns = came_ns.saturating_sub(start_ns + arrival);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_as_stated() {
        let schedule = vec![
            Arrival {
                at_ns: 0,
                demand: 1.0
            };
            20_000
        ];
        let commands = commands(&schedule, 5);
        let share = |name: &[u8]| {
            let count = commands
                .iter()
                .filter(|c| c.windows(name.len()).any(|w| w == name));
            count.count() as f64 / commands.len() as f64
        };
        assert!((share(b"\nGET\r") - 0.60).abs() < 0.02);
        assert!((share(b"\nSET\r") - 0.25).abs() < 0.02);
        assert!((share(b"\nLRANGE\r") - 0.15).abs() < 0.02);
        assert_eq!(commands, super::commands(&schedule, 5));
    }

    /// Answers every command after a pause, as a server would that is slow.
    fn slow_server(listener: TcpListener, pause: Duration) {
        for stream in listener.incoming().take(CONNECTIONS) {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let (mut bytes, mut commands) = ([0; 4096], Replies::default());
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    commands.push(&bytes[..length]);
                    while commands.take().unwrap() {
                        std::thread::sleep(pause);
                        stream.write_all(b"$3\r\nyes\r\n").unwrap();
                    }
                }
            });
        }
    }

    #[test]
    fn latency_counts_from_the_intended_moment() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || slow_server(listener, Duration::from_millis(5)));
        let streams = (0..CONNECTIONS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        // Two commands on each connection at once: the second of each waits for the first.
        let schedule = vec![
            Arrival {
                at_ns: 0,
                demand: 1.0
            };
            2 * CONNECTIONS
        ];
        let commands = commands(&schedule, 1);
        let outcome = Client::new(streams)
            .unwrap()
            .run(&schedule, &commands, &AtomicBool::new(false))
            .unwrap();
        let (first, second) = outcome.latency_ns.split_at(CONNECTIONS);
        assert!(first.iter().all(|&ns| ns >= 5_000_000), "{first:?}");
        assert!(second.iter().all(|&ns| ns >= 10_000_000), "{second:?}");
    }

    #[test]
    fn a_real_redis_answers_everything() {
        let mut redis = Redis::start().unwrap();
        let service_ns = redis.calibrate(1).unwrap();
        assert!(service_ns > 1000.0, "{service_ns}");
        let outcome = redis
            .run(500.0, 300_000_000, 1, &AtomicBool::new(false))
            .unwrap();
        assert!(outcome.latency_ns.len() > 80);
        assert!(outcome.latency_ns.iter().all(|&ns| ns > 0));
        redis.pause().unwrap();
        redis.resume().unwrap();
    }
}
