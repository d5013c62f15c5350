//! Compiles the scheduler to BPF and generates its Rust bindings.

fn main() -> anyhow::Result<()> {
    scx_cargo::BpfBuilder::new()?
        .enable_intf("src/bpf/intf.h", "bpf_intf.rs")
        .enable_skel("src/bpf/main.bpf.c", "bpf")
        .build()
}
