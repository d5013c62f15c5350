//! Compiles the collector of metrics to BPF and generates its Rust bindings.

fn main() -> anyhow::Result<()> {
    // the builder does not see the header that is shared with the scheduler
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../policy/bpf/intf.h");
    // a builder keeps one skeleton
    scx_cargo::BpfBuilder::new()?
        .enable_skel("bpf/service.bpf.c", "service")
        .build()?;
    scx_cargo::BpfBuilder::new()?
        .enable_intf("bpf/metrics_intf.h", "metrics_intf.rs")
        .enable_skel("bpf/metrics.bpf.c", "metrics")
        .build()
}
