//! Link options of the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // It has a thread and an exit handler of its own: unloading it would leave them without code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // the number grows with what breaks programs that were linked before: scripts/install has it, too
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsidelane_runtime.so.0");
}
