//! Makes bindings for what the scheduler's source shares with Rust.

use std::path::PathBuf;
use std::process::exit;

const SCHEDULER: &str = "bpf";

fn main() {
    println!("cargo::rerun-if-changed={SCHEDULER}");
    if let Err(reason) = build() {
        println!("cargo::error=bindings for the scheduler's layouts could not be made: {reason}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    bindgen::Builder::default()
        .header(format!("{SCHEDULER}/intf.h"))
        .derive_default(true)
        .parse_callbacks(Box::new(Written))
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .map_err(|error| error.to_string())?
        .write_to_file(out.join("intf.rs"))
        .map_err(|error| error.to_string())
}

/// What the scheduler counts is compared, and written into results.
#[derive(Debug)]
struct Written;

impl bindgen::callbacks::ParseCallbacks for Written {
    fn add_derives(&self, of: &bindgen::callbacks::DeriveInfo) -> Vec<String> {
        let derives: &[&str] = match of.name {
            "counters" => &["PartialEq", "Eq", "serde::Serialize"],
            _ => &[],
        };
        derives.iter().map(ToString::to_string).collect()
    }
}
