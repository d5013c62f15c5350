//! The representative mix: six kinds of work, each in steps of some ten microseconds.
//!
//! A kernel keeps its state and does the same amount of work in each step. Its memory is its own:
//! what two lanes of a core share is the core, never data.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hint::black_box;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Integer arithmetic in registers, four independent chains.
    Integer,
    /// Floating-point multiply and add in registers, eight independent chains.
    FloatingPoint,
    /// A triad over arrays that no cache holds.
    Streaming,
    /// Dependent loads in random order, in memory of the size of the last-level cache that falls to
    /// a core.
    PointerChasing,
    /// Branches that no predictor foresees.
    Branchy,
    /// Requests: parse text, look a key up in a table of 4 MiB, write an answer.
    RequestLike,
}

impl Kernel {
    /// All of them, equally weighted in the mix.
    pub const ALL: [Kernel; 6] = [
        Kernel::Integer,
        Kernel::FloatingPoint,
        Kernel::Streaming,
        Kernel::PointerChasing,
        Kernel::Branchy,
        Kernel::RequestLike,
    ];

    /// Its name as shown.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Integer => "integer",
            Kernel::FloatingPoint => "floating point",
            Kernel::Streaming => "memory streaming",
            Kernel::PointerChasing => "pointer chasing",
            Kernel::Branchy => "branchy",
            Kernel::RequestLike => "request-like",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much memory kernels take, each on each lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Of pointer chasing, bytes.
    pub chase_bytes: usize,
    /// Of streaming, bytes.
    pub stream_bytes: usize,
}

#[cfg(test)]
impl Footprint {
    /// Quickly made.
    pub(super) const SMALL: Footprint = Footprint {
        chase_bytes: 1 << 16,
        stream_bytes: 1 << 18,
    };
}

/// A kernel with its memory.
pub(super) enum State {
    Integer([u64; 4]),
    FloatingPoint([f64; 8]),
    Streaming(Stream),
    PointerChasing { next: Vec<Line>, at: u32 },
    Branchy(Random),
    RequestLike(Requests),
}

impl State {
    /// Allocates and fills; `seed` differs by lane, so that lanes do not run in step.
    pub(super) fn new(kernel: Kernel, footprint: Footprint, seed: u64) -> State {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        match kernel {
            Kernel::Integer => State::Integer(std::array::from_fn(|_| random.next())),
            Kernel::FloatingPoint => State::FloatingPoint(std::array::from_fn(|n| n as f64)),
            Kernel::Streaming => State::Streaming(Stream::new(footprint.stream_bytes)),
            Kernel::PointerChasing => State::PointerChasing {
                next: cycle(footprint.chase_bytes / size_of::<Line>(), &mut random),
                at: 0,
            },
            Kernel::Branchy => State::Branchy(random),
            Kernel::RequestLike => State::RequestLike(Requests::new(random)),
        }
    }

    /// One step of work.
    pub(super) fn step(&mut self) {
        match self {
            State::Integer(chains) => integer(chains),
            State::FloatingPoint(chains) => floating_point(chains),
            State::Streaming(stream) => stream.step(),
            State::PointerChasing { next, at } => *at = chase(next, *at),
            State::Branchy(random) => branchy(random),
            State::RequestLike(requests) => requests.step(),
        }
    }
}

/// A small random generator (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

fn integer(chains: &mut [u64; 4]) {
    let mut local = *chains;
    for _ in 0..4_000 {
        for x in &mut local {
            *x = (*x ^ (*x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
    }
    *chains = black_box(local);
}

fn floating_point(chains: &mut [f64; 8]) {
    let mut local = *chains;
    for _ in 0..4_000 {
        for x in &mut local {
            // Tends to 1, so neither overflows nor becomes denormal.
            *x = *x * 0.999 + 0.001;
        }
    }
    *chains = black_box(local);
}

/// Three arrays: a[i] = b[i] + s × c[i], a piece a step.
pub(super) struct Stream {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    at: usize,
}

impl Stream {
    /// Elements of each array in a step.
    const PIECE: usize = 4_096;

    fn new(bytes: usize) -> Stream {
        let elements = (bytes / 3 / size_of::<f64>()).max(Stream::PIECE);
        // Written, because pages that were never written are all the same one.
        let filled = |value: f64| -> Vec<f64> { vec![black_box(value); elements] };
        Stream {
            a: filled(1.0),
            b: filled(2.0),
            c: filled(3.0),
            at: 0,
        }
    }

    fn step(&mut self) {
        let piece = self.at..self.at + Stream::PIECE;
        if let (Some(a), Some(b), Some(c)) = (
            self.a.get_mut(piece.clone()),
            self.b.get(piece.clone()),
            self.c.get(piece),
        ) {
            for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                *a = *b + 0.5 * *c;
            }
            black_box(a.first());
        }
        self.at += Stream::PIECE;
        if self.at + Stream::PIECE > self.a.len() {
            self.at = 0;
        }
    }
}

/// A cache line that names another.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Line(u32);

/// One cycle through all of so many lines, in random order (Sattolo's shuffle).
fn cycle(lines: usize, random: &mut Random) -> Vec<Line> {
    let lines = lines.clamp(2, 1 << 28);
    let mut next: Vec<Line> = (0..lines as u32).map(Line).collect();
    for last in (1..lines).rev() {
        next.swap(last, random.below(last));
    }
    next
}

fn chase(next: &[Line], from: u32) -> u32 {
    let step = |at: u32| next.get(at as usize).map_or(0, |line| line.0);
    black_box((0..400).fold(from, |at, _| step(at)))
}

/// A machine of eight operations that a random number chooses.
fn branchy(random: &mut Random) {
    let (mut x, mut y, mut taken) = (1_u64, 2_u64, 0_u32);
    for _ in 0..200 {
        let mut word = random.next();
        for _ in 0..8 {
            match word & 7 {
                0 => x = x.wrapping_add(y),
                1 => y ^= x.rotate_left(7),
                2 if x > y => taken += 1,
                2 => x = black_box(y),
                3 => x = x.wrapping_mul(3),
                4 => y = y.wrapping_sub(x >> 3),
                5 if y & 1 == 0 => y = black_box(x.wrapping_add(1)),
                5 => x ^= 0x55,
                6 => std::mem::swap(&mut x, &mut y),
                _ => taken ^= black_box(1),
            }
            word >>= 3;
        }
    }
    black_box((x, y, taken));
}

/// A server's work without the network.
pub(super) struct Requests {
    random: Random,
    table: Vec<[u64; 8]>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Requests {
    /// Entries of 64 bytes: 4 MiB.
    const ENTRIES: usize = 1 << 16;

    fn new(mut random: Random) -> Requests {
        let entry = |_| std::array::from_fn(|_| random.next());
        Requests {
            table: (0..Requests::ENTRIES).map(entry).collect(),
            random,
            request: Vec::new(),
            answer: Vec::new(),
        }
    }

    fn step(&mut self) {
        for _ in 0..16 {
            self.receive();
            let key = black_box(parse(&self.request));
            let entry = self.table.get_mut(key as usize % Requests::ENTRIES);
            if let Some(entry) = entry {
                entry[7] = entry[7].wrapping_add(1);
                respond(&mut self.answer, entry);
            }
            black_box(self.answer.len());
        }
    }

    /// Writes a request into the buffer.
    fn receive(&mut self) {
        const HEAD: &[u8] = b"GET /items?key=";
        const TAIL: &[u8] = b"&fields=name,price HTTP/1.1\r\nHost: shop\r\nAccept: */*\r\n\r\n";
        self.request.clear();
        self.request.extend_from_slice(HEAD);
        push_decimal(&mut self.request, self.random.next() >> 24);
        self.request.extend_from_slice(TAIL);
    }
}

/// Finds `key=` and hashes what follows, while it validates the rest.
fn parse(request: &[u8]) -> u64 {
    let (mut hash, mut in_key, mut lines) = (0xcbf2_9ce4_8422_2325_u64, false, 0);
    for &byte in request {
        match byte {
            b'=' if !in_key && lines == 0 => in_key = true,
            b'&' | b' ' => in_key = false,
            b'\n' => lines += 1,
            b'0'..=b'9' if in_key => hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3),
            _ => {}
        }
    }
    hash ^ lines
}

fn respond(answer: &mut Vec<u8>, entry: &[u64; 8]) {
    answer.clear();
    for &field in entry {
        push_decimal(answer, field >> 40);
        answer.push(b',');
    }
}

fn push_decimal(text: &mut Vec<u8>, mut number: u64) {
    let from = text.len();
    while number > 9 {
        text.push(b'0' + (number % 10) as u8);
        number /= 10;
    }
    text.push(b'0' + number as u8);
    if let Some(digits) = text.get_mut(from..) {
        digits.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_steps() {
        for kernel in Kernel::ALL {
            let mut state = State::new(kernel, Footprint::SMALL, 7);
            (0..40).for_each(|_| state.step());
        }
    }

    #[test]
    fn the_chase_visits_every_line_once_a_round() {
        let lines = cycle(1000, &mut Random(99));
        let (mut at, mut steps) = (0, 0);
        loop {
            (at, steps) = (lines[at as usize].0, steps + 1);
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, 1000);
    }

    #[test]
    fn requests_are_parsed() {
        let other =
            |key: &str| parse(format!("GET /items?key={key}&x=1 HTTP/1.1\r\n\r\n").as_bytes());
        assert_ne!(other("12"), other("13"));
        let mut text = Vec::new();
        for number in [0, 9, 10, 1_234_567] {
            push_decimal(&mut text, number);
        }
        assert_eq!(text, b"09101234567");
    }

    #[test]
    fn streaming_goes_round() {
        let mut stream = Stream::new(3 * 8 * 10_000);
        (0..5).for_each(|_| stream.step());
        assert_eq!(
            (stream.a[0], stream.a[8_191], stream.a[8_192]),
            (3.5, 3.5, 1.0)
        );
    }
}
