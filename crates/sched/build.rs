//! Compiles the scheduler, the tracer of lanes and the collector of metrics to BPF and generates their Rust bindings.

fn main() -> anyhow::Result<()> {
    scx_cargo::BpfBuilder::new()?
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_skel("src/bpf/lanes.bpf.c", "lanes")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_intf("src/bpf/metrics_intf.h", "metrics_intf.rs")
        .enable_skel("src/bpf/metrics.bpf.c", "metrics")
        .build()
}
