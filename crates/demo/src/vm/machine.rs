//! A virtual machine of KVM: its memory, its virtual CPUs, and the doorbells between them.

use super::guest;
use super::kvm::{Kvm, Registers, Segment, Vcpu, Vm};
use super::{Duty, VmPlan};
use crate::error::{During, Error, Result};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use sidelane_interface::say;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;

/// Where Intel's processors want three pages of their own, beyond the guest's memory.
const TSS_ADDRESS: usize = 0xfffb_d000;
/// The local interrupt controller's register that switches it on, and its value that does.
const SPURIOUS_VECTOR: usize = 0xf0;
const SWITCHED_ON: u32 = 0x1ff;
/// Where messages to the local interrupt controllers go.
const MESSAGE_ADDRESS: u32 = 0xfee0_0000;

/// A virtual machine that is ready to run.
pub(super) struct VirtualMachine {
    vcpus: Vec<Vcpu>,
    _vm: Vm,
    _doorbells: Vec<EventFd>,
}

impl VirtualMachine {
    /// Makes one whose memory is a file, which grows to the size needed.
    pub(super) fn new(plan: &VmPlan, memory: &File) -> Result<VirtualMachine> {
        let kvm = Kvm::open().map_err(|error| {
            Error::Unsupported(format!(
                "/dev/kvm: {error}; virtual machines need the module kvm_amd or kvm_intel, and root"
            ))
        })?;
        let vm = kvm
            .create_vm()
            .during(|| "making a virtual machine".into())?;
        give_memory(&vm, plan.vcpus, memory)?;
        vm.set_tss_address(TSS_ADDRESS)
            .and_then(|()| vm.create_irq_chip())
            .during(|| "making interrupt controllers".into())?;
        let doorbells = match plan.duty {
            Duty::PingPong { .. } => hang_doorbells(&vm, plan.vcpus)?,
            Duty::Device { .. } | Duty::Multiply => Vec::new(),
        };
        let vcpus = (0..plan.vcpus)
            .map(|id| make_vcpu(&kvm, &vm, plan, id).during(|| format!("virtual CPU {id}")))
            .collect::<Result<_>>()?;
        Ok(VirtualMachine {
            vcpus,
            _vm: vm,
            _doorbells: doorbells,
        })
    }

    /// Runs for ever; the first virtual CPU is the calling thread.
    ///
    /// # Errors
    /// A virtual CPU stopped.
    pub(super) fn run(self) -> Result<()> {
        let mut vcpus = self.vcpus.into_iter();
        let Some(first) = vcpus.next() else {
            return Ok(());
        };
        for (id, vcpu) in (1..).zip(vcpus) {
            let thread = std::thread::Builder::new().name(format!("vcpu{id}"));
            let run = move || {
                if let Err(error) = run(vcpu) {
                    say!("virtual CPU {id}: {error}");
                    std::process::exit(1);
                }
            };
            thread.spawn(run).during(|| "starting a thread".into())?;
        }
        run(first)
    }
}

/// Runs a virtual CPU until it does something that it never should.
fn run(vcpu: Vcpu) -> Result<()> {
    let exit = vcpu.run().during(|| "running".into())?;
    Err(Error::Process {
        who: "the virtual machine",
        reason: format!("left with KVM's exit reason {exit}"),
    })
}

/// Fills the file and makes it the guest's memory.
fn give_memory(vm: &Vm, vcpus: u32, memory: &File) -> Result<()> {
    let during = || "the virtual machine's memory".to_owned();
    let size = guest::PAGES + u64::from(vcpus) * guest::PAGE_BYTES;
    memory.set_len(size).during(during)?;
    for (address, bytes) in guest::image() {
        memory.write_all_at(&bytes, address).during(during)?;
    }
    let length = NonZeroUsize::new(size as usize).ok_or(Error::Incomplete("no memory".into()))?;
    // SAFETY: a new mapping of a file that nobody shortens; it stays for the process's life
    let mapped = unsafe {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        mmap(None, length, protection, MapFlags::MAP_SHARED, memory, 0)
    }
    .during(during)?;
    // SAFETY: the mapping above is never taken away
    unsafe { vm.set_memory(mapped.as_ptr().cast(), size) }.during(during)
}

/// A doorbell for each virtual CPU: writing to its port interrupts its partner, without any thread of ours.
fn hang_doorbells(vm: &Vm, vcpus: u32) -> Result<Vec<EventFd>> {
    let during = || "doorbells".to_owned();
    let message = |id: u32| (MESSAGE_ADDRESS | (id << 12), u32::from(guest::VECTOR));
    let messages: Vec<(u32, u32)> = (0..vcpus).map(message).collect();
    vm.set_messages(&messages).during(during)?;
    (0..vcpus)
        .map(|id| {
            let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).during(during)?;
            vm.connect(doorbell(id), &bell, partner(id))
                .during(during)?;
            Ok(bell)
        })
        .collect()
}

/// Who plays with whom: 0 with 1, 2 with 3, …
fn partner(id: u32) -> u32 {
    id ^ 1
}

fn doorbell(id: u32) -> u64 {
    u64::from(guest::DOORBELLS) + 4 * u64::from(id)
}

/// A virtual CPU before its first instruction.
fn make_vcpu(kvm: &Kvm, vm: &Vm, plan: &VmPlan, id: u32) -> io::Result<Vcpu> {
    let vcpu = kvm.create_vcpu(vm, id)?;
    set_flat_mode(&vcpu)?;
    let page = guest::PAGES + u64::from(id) * guest::PAGE_BYTES;
    let (rip, turns, rdx) = match plan.duty {
        Duty::PingPong { turns } => (guest::ping_pong(), turns, doorbell(id)),
        // the timer counts nanoseconds
        Duty::Device { turns, wait_us } => (guest::device(), turns, u64::from(wait_us) * 1000),
        Duty::Multiply => (guest::multiply(), 1, 0),
    };
    vcpu.set_registers(Registers {
        rip,
        rsp: page + guest::STACK_END,
        rsi: page,
        rdx,
        rbp: turns.max(1).into(),
        // the first of each pair begins
        rax: u64::from(partner(id) > id),
        rflags: 2,
        ..Default::default()
    })?;
    switch_interrupts_on(&vcpu)?;
    Ok(vcpu)
}

/// 32-bit protected mode without paging, all segments from 0 to 4 GiB.
fn set_flat_mode(vcpu: &Vcpu) -> io::Result<()> {
    let segment = |selector, kind| Segment {
        base: 0,
        limit: u32::MAX,
        selector,
        kind,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    };
    vcpu.change_system(|registers| {
        registers.cs = segment(8, 11);
        let data = segment(16, 3);
        (registers.ds, registers.es, registers.ss) = (data, data, data);
        (registers.fs, registers.gs) = (data, data);
        registers.cr0 |= 1;
        (registers.gdt.base, registers.gdt.limit) = (guest::GDT, 3 * 8 - 1);
        (registers.idt.base, registers.idt.limit) = (guest::IDT, 256 * 8 - 1);
    })
}

/// Switches the local interrupt controller on: else a doorbell that rings before the guest has done so
/// would be lost.
fn switch_interrupts_on(vcpu: &Vcpu) -> io::Result<()> {
    vcpu.change_lapic(|controller| {
        let register = SPURIOUS_VECTOR..SPURIOUS_VECTOR + size_of_val(&SWITCHED_ON);
        controller.0[register].copy_from_slice(&SWITCHED_ON.to_le_bytes());
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partners_are_each_others() {
        for id in 0..8 {
            assert_ne!(partner(id), id);
            assert_eq!(partner(partner(id)), id);
            assert_eq!(partner(id) / 2, id / 2);
        }
        assert_eq!(doorbell(3), 0x50c);
    }
}
