//! Traces: CSV with the header `at_ms,demand_ms` and a request a line.

use crate::TraceRequest;
use sidelane_policy::file::{LONGEST_MS, Limits, MS, Result, Source};

const HEADER: &str = "at_ms,demand_ms";
const AT: Limits = Limits::from(0.0, LONGEST_MS);
const DEMAND: Limits = Limits::above(0.0, LONGEST_MS);

/// The requests of a trace; there is at least one. A mark of the byte order at the beginning, as
/// spreadsheets write it, is no part of the text.
pub(super) fn requests(file: &str, text: &str) -> Result<Vec<TraceRequest>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source { file, text };
    let mut requests: Vec<TraceRequest> = Vec::new();
    let mut header = false;
    for (at, line) in lines(text) {
        if line.trim().is_empty() {
            continue;
        }
        if !header {
            let found: Vec<&str> = line.split(',').map(str::trim).collect();
            if found.join(",") != HEADER {
                return Err(source.error(at, format!("the first line has to be {HEADER}")));
            }
            header = true;
            continue;
        }
        let request = request(&source, at, line)?;
        if requests
            .last()
            .is_some_and(|last| last.at_ns > request.at_ns)
        {
            return Err(source.error(
                at,
                "at_ms is earlier than in the line before; sort the lines by at_ms",
            ));
        }
        requests.push(request);
    }
    match (header, requests.is_empty()) {
        (false, _) => Err(source.error(0, format!("the first line has to be {HEADER}"))),
        (_, true) => Err(source.error(0, "the trace has no request; add lines such as 12.5,8")),
        _ => Ok(requests),
    }
}

/// Lines without their end, each with its byte offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end())
    })
}

fn request(source: &Source, at: usize, line: &str) -> Result<TraceRequest> {
    let fields: Vec<&str> = line.split(',').collect();
    let [arrival, demand] = fields[..] else {
        return Err(source.error(
            at,
            format!(
                "expected two numbers such as 12.5,8, not {} fields",
                fields.len()
            ),
        ));
    };
    let arrival_ms = number(source, at, "at_ms", arrival, AT)?;
    let demand_ms = number(source, at + arrival.len() + 1, "demand_ms", demand, DEMAND)?;
    Ok(TraceRequest {
        at_ns: (arrival_ms * MS).round() as u64,
        demand_ns: demand_ms * MS,
    })
}

fn number(source: &Source, at: usize, key: &str, field: &str, limits: Limits) -> Result<f64> {
    let number = field.trim().parse().ok();
    number
        .filter(|number| limits.allow(*number))
        .ok_or_else(|| {
            let at = at + field.len() - field.trim_start().len();
            source.error(
                at,
                format!("{key}: expected {limits}, not {:?}", field.trim()),
            )
        })
}
