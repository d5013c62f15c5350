//! Compiles the scheduler's own source to native code, with substitute headers, and makes bindings
//! for what it shares with the simulated kernel.

use std::env;
use std::path::PathBuf;
use std::process::exit;

const SCHEDULER: &str = "../sched/src/bpf";

fn main() {
    println!("cargo::rerun-if-changed={SCHEDULER}");
    println!("cargo::rerun-if-changed=native");
    if let Err(reason) = build() {
        println!("cargo::error=the scheduler could not be compiled natively: {reason}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    cc::Build::new()
        .file("native/scheduler.c")
        .include("native")
        .include(SCHEDULER)
        .std("gnu11")
        .flag("-fvisibility=hidden")
        // The source is the kernel's dialect: callbacks may leave arguments unused.
        .flag("-Wno-unused-parameter")
        .flag("-Wno-unused-function")
        .opt_level(2)
        .try_compile("sidelane_native")
        .map_err(|error| error.to_string())?;
    bindgen::Builder::default()
        .header("native/bindings.h")
        .clang_args(["-Inative", &format!("-I{SCHEDULER}")])
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .map_err(|error| error.to_string())?
        .write_to_file(out.join("native.rs"))
        .map_err(|error| error.to_string())
}
