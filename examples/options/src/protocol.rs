//! Requests and answers: a datagram each, one line of `word=value` pairs.
//!
//! ```text
//! price id=17 paths=12000 deadline_us=50000 strike=100 seed=17
//! priced id=17 paths=11800 of=12000 price=3.7113
//! refused no paths=
//! ```

use crate::pricing::START_PRICE;
use std::fmt;
use std::str::FromStr;

/// Longest datagram, bytes.
pub const MAX_BYTES: usize = 512;
/// The price at which every path starts.
const START: f64 = 100.0;

/// Price an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// The client's number for it.
    pub id: u64,
    /// Random paths, at least 1.
    pub paths: u64,
    /// How long after its arrival at the server it has to be answered, µs; 0: no matter when.
    pub deadline_us: u64,
    /// The option's strike, where a share is worth 100 now.
    pub strike: f64,
    /// Start of the random numbers.
    pub seed: u64,
}

/// A price.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reply {
    /// The request's number.
    pub id: u64,
    /// Paths on which the price rests.
    pub paths: u64,
    /// Paths that were asked for.
    pub of: u64,
    /// The price.
    pub price: f64,
}

impl Request {
    /// The strike in the fixed point of [`START_PRICE`].
    pub fn fixed_strike(&self) -> u64 {
        (self.strike / START * START_PRICE as f64) as u64
    }
}

/// A price in the fixed point of [`START_PRICE`] as a number.
pub fn from_fixed(price: u64) -> f64 {
    price as f64 * START / START_PRICE as f64
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request {
            id,
            paths,
            deadline_us,
            strike,
            seed,
        } = self;
        write!(
            f,
            "price id={id} paths={paths} deadline_us={deadline_us} strike={strike} seed={seed}"
        )
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reply {
            id,
            paths,
            of,
            price,
        } = self;
        write!(f, "priced id={id} paths={paths} of={of} price={price}")
    }
}

impl FromStr for Request {
    type Err = String;

    /// # Errors
    /// What is wrong with it.
    fn from_str(text: &str) -> Result<Request, String> {
        let words = Words::of(
            text,
            "price",
            &["id", "paths", "deadline_us", "strike", "seed"],
        )?;
        let request = Request {
            id: words.value("id")?,
            paths: words.value("paths")?,
            deadline_us: words.value("deadline_us")?,
            strike: words.value("strike")?,
            seed: words.value("seed")?,
        };
        match request {
            Request { paths: 0, .. } => Err("paths=0: at least 1".into()),
            Request { strike, .. } if !(0.0..=1e9).contains(&strike) => {
                Err(format!("strike={strike}: 0 to 1e9"))
            }
            request => Ok(request),
        }
    }
}

impl FromStr for Reply {
    type Err = String;

    /// # Errors
    /// What is wrong with it.
    fn from_str(text: &str) -> Result<Reply, String> {
        let words = Words::of(text, "priced", &["id", "paths", "of", "price"])?;
        Ok(Reply {
            id: words.value("id")?,
            paths: words.value("paths")?,
            of: words.value("of")?,
            price: words.value("price")?,
        })
    }
}

/// The pairs of a line.
struct Words<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Words<'a> {
    fn of(text: &'a str, verb: &str, names: &[&str]) -> Result<Words<'a>, String> {
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            Some(first) if first == verb => {}
            _ => return Err(format!("expected '{verb}'")),
        }
        let pair = |word: &'a str| match word.split_once('=') {
            Some((name, value)) if names.contains(&name) => Ok((name, value)),
            _ => Err(format!("{word:?}: expected one of {}", names.join("=, "))),
        };
        Ok(Words(words.map(pair).collect::<Result<_, _>>()?))
    }

    fn value<T: FromStr>(&self, name: &str) -> Result<T, String> {
        let mut of_that_name = self.0.iter().filter(|(other, _)| *other == name);
        match (of_that_name.next(), of_that_name.next()) {
            (Some((_, value)), None) => value
                .parse()
                .map_err(|_| format!("{name}={value}: no such number")),
            (None, _) => Err(format!("no {name}=")),
            (Some(_), Some(_)) => Err(format!("{name}= twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let request = Request {
            id: 17,
            paths: u64::MAX,
            deadline_us: 0,
            strike: 99.5,
            seed: 3,
        };
        assert_eq!(request.to_string().parse(), Ok(request));
        let reply = Reply {
            id: 17,
            paths: 11_800,
            of: 12_000,
            price: 3.7,
        };
        assert_eq!(
            reply.to_string(),
            "priced id=17 paths=11800 of=12000 price=3.7"
        );
        assert_eq!(reply.to_string().parse(), Ok(reply));
        assert!(request.to_string().len() < MAX_BYTES);
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str| text.parse::<Request>().unwrap_err();
        assert_eq!(refused("GET / HTTP/1.0"), "expected 'price'");
        assert_eq!(refused("price id=1"), "no paths=");
        let rest = "deadline_us=1 strike=1 seed=1";
        assert_eq!(
            refused(&format!("price id=1 paths=0 {rest}")),
            "paths=0: at least 1"
        );
        assert_eq!(
            refused(&format!("price id=1 paths=-1 {rest}")),
            "paths=-1: no such number"
        );
        assert_eq!(
            refused(&format!("price id=1 id=2 paths=1 {rest}")),
            "id= twice"
        );
        assert!(refused("price id=1 colour=red").starts_with("\"colour=red\": expected one of"));
        let strike = refused("price id=1 paths=1 deadline_us=1 strike=NaN seed=1");
        assert_eq!(strike, "strike=NaN: 0 to 1e9");
    }

    #[test]
    fn fixed_point_goes_both_ways() {
        let request: Request = "price id=1 paths=1 deadline_us=1 strike=100 seed=1"
            .parse()
            .unwrap();
        assert_eq!(request.fixed_strike(), START_PRICE);
        assert!((from_fixed(START_PRICE) - 100.0).abs() < 1e-9);
    }
}
