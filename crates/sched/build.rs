//! Compiles the scheduler, the tracer of lanes and the collector of metrics to BPF and generates their Rust bindings.

fn main() -> anyhow::Result<()> {
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/main.bpf.c", "bpf")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_skel("../policy/bpf/lanes.bpf.c", "lanes")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_intf("../policy/bpf/metrics_intf.h", "metrics_intf.rs")
        .enable_skel("../policy/bpf/metrics.bpf.c", "metrics")
        .build()
}
