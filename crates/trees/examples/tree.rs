//! Writes a machine's tree: `cargo run -p sidelane-trees --example tree -- NAME FOLDER`.

#![allow(clippy::print_stderr)]

use sidelane_trees::{CAPTURED, machines, unpack};
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let all = machines::all();
    let [name, folder] = arguments.as_slice() else {
        let generated: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "NAME FOLDER; names: {}, {}",
            generated.join(", "),
            CAPTURED.join(", ")
        );
        std::process::exit(2);
    };
    match all.iter().find(|(known, _)| known == name) {
        Some((_, machine)) => machine.tree().write(Path::new(folder)),
        None => unpack(name, Path::new(folder)),
    }
}
