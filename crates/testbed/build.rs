//! Builds the plug-in that is embedded in the test bed: see `src/turns.c`.

use std::env;
use std::path::PathBuf;
use std::process::exit;

fn main() {
    println!("cargo::rerun-if-changed=src/turns.c");
    if let Err(reason) = build() {
        println!("cargo::error=the plug-in src/turns.c could not be built: {reason}");
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let folder = env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    let target = PathBuf::from(folder).join("turns.so");
    let compiler = cc::Build::new()
        .opt_level(2)
        .pic(true)
        .debug(false)
        .flag("-fvisibility=hidden")
        .warnings_into_errors(true)
        .extra_warnings(true)
        .try_get_compiler()
        .map_err(|error| error.to_string())?;
    let mut command = compiler.to_command();
    command.args(["-shared", "src/turns.c", "-o"]).arg(&target);
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}"))
    }
}
