//! The `sidelane` command: a subcommand a file, no logic of its own.
fn main() {}
