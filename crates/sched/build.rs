//! Compiles the scheduler and the tracer of lanes to BPF and generates their Rust bindings.

fn main() -> anyhow::Result<()> {
    // the builder does not see the headers in folders of their own
    println!("cargo::rerun-if-changed=../policy/bpf");
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/main.bpf.c", "bpf")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/lanes.bpf.c", "lanes")
        .build()
}
