//! libbpf: what it needs before it is used, and the errors of what it did.

use crate::Error;
use libbpf_rs::PrintLevel;
use std::sync::Mutex;

/// What any use of libbpf needs first.
pub(crate) fn prepare() {
    scx_utils::try_set_rlimit_infinity();
    hush();
}

/// libbpf tells a lot; its warnings are kept for the one error that matters.
fn hush() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut kept) = WARNINGS.lock() {
            kept.push_str(&message);
        }
    })));
}

/// The end of what libbpf warned of: the verifier's verdict comes last.
pub(crate) fn warnings() -> String {
    const LINES: usize = 40;
    let kept = WARNINGS.lock().map(|kept| kept.clone()).unwrap_or_default();
    let lines: Vec<_> = kept.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// The error of a step.
pub(crate) fn load_error<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |e| Error::Load {
        step,
        reason: format!("{e:#}"),
        details: warnings(),
    }
}
