//! Builds the matrix multiplication of `examples/` with a check in each basic block.

use std::process::exit;

const EXAMPLE: &str = "../../examples/matmul.c";

fn main() {
    println!("cargo::rerun-if-changed=src/multiply.c");
    println!("cargo::rerun-if-changed={EXAMPLE}");
    let built = cc::Build::new()
        .file("src/multiply.c")
        .opt_level(2)
        .flag("-fvisibility=hidden")
        .flag("-fsanitize-coverage=trace-pc") // gcc and clang have it; the runtime is what it calls
        .try_compile("sidelane_multiply");
    if let Err(reason) = built {
        println!(
            "cargo::error={EXAMPLE} could not be built; install gcc or clang (scripts/setup build), or name \
             one in CC: {reason}"
        );
        exit(1);
    }
}
