//! Compiles the collector of metrics to BPF and generates its Rust bindings.

fn main() -> anyhow::Result<()> {
    scx_cargo::BpfBuilder::new()?
        .enable_intf("bpf/metrics_intf.h", "metrics_intf.rs")
        .enable_skel("bpf/metrics.bpf.c", "metrics")
        .build()
}
