//! Compiles the scheduler and the tracer of lanes to BPF and generates their Rust bindings.

fn main() -> anyhow::Result<()> {
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/main.bpf.c", "bpf")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/lanes.bpf.c", "lanes")
        .build()
}
