//! Tests inside the test bed; see `crates/guest-tests`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sidelane_guest_tests::main(env!("CARGO_BIN_EXE_sidelane"))
}
