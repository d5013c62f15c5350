//! Compiles the scheduler's own source to native code, with substitute headers, and makes bindings
//! for what it shares with the simulated kernel.

use std::path::PathBuf;
use std::process::exit;
use std::{env, fs};

const SCHEDULER: &str = "../policy/bpf";
const EXPERIMENTS: &str = "../../experiments";

fn main() {
    println!("cargo::rerun-if-changed={SCHEDULER}");
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed={EXPERIMENTS}");
    if let Err(reason) = embed_experiments() {
        println!("cargo::error=the experiments could not be embedded: {reason}");
        exit(1);
    }
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
        .opt_level(3)
        .flag("-fomit-frame-pointer")
        .flag("-ftls-model=initial-exec")
        .try_compile("sidelane_native")
        .map_err(|error| error.to_string())?;
    bindgen::Builder::default()
        .header("native/bindings.h")
        .clang_args(["-Inative", &format!("-I{SCHEDULER}")])
        // what the scheduler shares with its loader, too, is the policy crate's
        .blocklist_file(".*/(runtime_)?intf\\.h")
        .raw_line("pub use sidelane_policy::intf::*;")
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .map_err(|error| error.to_string())?
        .write_to_file(out.join("native.rs"))
        .map_err(|error| error.to_string())
}

/// Makes the experiments part of the program: a table of name and text, by name.
fn embed_experiments() -> Result<(), String> {
    let folder = fs::canonicalize(EXPERIMENTS).map_err(|error| error.to_string())?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && let Some(name) = path.file_stem()
        {
            entries.push(format!("    ({:?}, include_str!({:?})),\n", name, path));
        }
    }
    entries.sort();
    let table = format!(
        "/// Name and text of each experiment.\nconst EXPERIMENTS: &[(&str, &str)] = &[\n{}];\n",
        entries.concat()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    fs::write(out.join("experiments.rs"), table).map_err(|error| error.to_string())
}
