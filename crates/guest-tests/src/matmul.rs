//! The matrix multiplication of `examples/`, with the runtime's checks and without.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Once;

/// Beside this program: in the guest, too.
pub fn path(instrumented: bool) -> PathBuf {
    let name = match instrumented {
        true => "matmul-stepping-aside",
        false => "matmul",
    };
    std::env::current_exe().unwrap().with_file_name(name)
}

/// Compiles both, once.
pub fn build() {
    static BUILT: Once = Once::new();
    BUILT.call_once(compile);
}

fn compile() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/matmul.c");
    let library = path(true).with_file_name("libsidelane_runtime.a");
    for instrumented in [false, true] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", source, "-o"]).arg(path(instrumented));
        if instrumented {
            gcc.arg("-fsanitize-coverage=trace-pc").arg(&library);
        }
        assert!(gcc.arg("-lm").status().unwrap().success());
    }
}
