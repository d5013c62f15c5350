//! What is used of KVM: requests and structures as linux/kvm.h and asm/kvm.h of x86-64 define them.

use libc::{c_int, c_ulong};
use nix::sys::eventfd::EventFd;
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// A request with a structure, or with a number if that is `()`.
struct Request<T> {
    number: c_ulong,
    of: PhantomData<fn(T)>,
}

const NONE: c_ulong = 0;
const WRITE: c_ulong = 1;
const READ: c_ulong = 2;

const CREATE_VM: Request<()> = Request::new(NONE, 0x01, 0);
const VCPU_MMAP_SIZE: Request<()> = Request::new(NONE, 0x04, 0);
const SUPPORTED_CPUID: Request<Cpuid> = Request::new(READ | WRITE, 0x05, HEAD_BYTES);
const CREATE_VCPU: Request<()> = Request::new(NONE, 0x41, 0);
const SET_MEMORY: Request<Memory> = Request::new(WRITE, 0x46, size_of::<Memory>());
const SET_TSS_ADDRESS: Request<()> = Request::new(NONE, 0x47, 0);
const CREATE_IRQCHIP: Request<()> = Request::new(NONE, 0x60, 0);
const SET_GSI_ROUTING: Request<Routes> = Request::new(WRITE, 0x6a, HEAD_BYTES);
const IRQFD: Request<Irqfd> = Request::new(WRITE, 0x76, size_of::<Irqfd>());
const IOEVENTFD: Request<Ioeventfd> = Request::new(WRITE, 0x79, size_of::<Ioeventfd>());
const RUN: Request<()> = Request::new(NONE, 0x80, 0);
const SET_REGS: Request<Registers> = Request::new(WRITE, 0x82, size_of::<Registers>());
const GET_SREGS: Request<System> = Request::new(READ, 0x83, size_of::<System>());
const SET_SREGS: Request<System> = Request::new(WRITE, 0x84, size_of::<System>());
const GET_LAPIC: Request<Lapic> = Request::new(READ, 0x8e, size_of::<Lapic>());
const SET_LAPIC: Request<Lapic> = Request::new(WRITE, 0x8f, size_of::<Lapic>());
const SET_CPUID: Request<Cpuid> = Request::new(WRITE, 0x90, HEAD_BYTES);
const SET_MP_STATE: Request<u32> = Request::new(WRITE, 0x99, size_of::<u32>());

const MP_STATE_RUNNABLE: u32 = 0;
const IRQ_ROUTING_MSI: u32 = 2;
const IOEVENTFD_FLAG_PIO: u32 = 1 << 1;
/// The run ended for a signal.
const EXIT_INTR: u32 = 10;
/// Where `struct kvm_run` says why a run ended.
const EXIT_REASON_AT: usize = 8;

impl<T> Request<T> {
    /// `_IO`, `_IOW`, `_IOR` and `_IOWR` of linux/ioctl.h.
    const fn new(direction: c_ulong, number: c_ulong, bytes: usize) -> Request<T> {
        const KVMIO: c_ulong = 0xae;
        Request {
            number: (direction << 30) | ((bytes as c_ulong) << 16) | (KVMIO << 8) | number,
            of: PhantomData,
        }
    }

    fn with(&self, fd: &impl AsRawFd, structure: &mut T) -> io::Result<()> {
        // SAFETY: the kernel reads and writes the request's structure, which this is
        let done = unsafe { libc::ioctl(fd.as_raw_fd(), self.number, structure) };
        told(done).map(drop)
    }
}

impl Request<()> {
    fn by_number(&self, fd: &impl AsRawFd, number: usize) -> io::Result<c_int> {
        // SAFETY: a call without memory of ours
        told(unsafe { libc::ioctl(fd.as_raw_fd(), self.number, number) })
    }

    fn descriptor(&self, fd: &impl AsRawFd, number: usize) -> io::Result<OwnedFd> {
        let new = self.by_number(fd, number)?;
        // SAFETY: just opened, and ours alone
        Ok(unsafe { OwnedFd::from_raw_fd(new) })
    }
}

fn told(done: c_int) -> io::Result<c_int> {
    match done {
        0.. => Ok(done),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A list behind its length, with room for more.
#[repr(C)]
struct List<T, const N: usize> {
    used: u32,
    flags: u32,
    entries: [T; N],
}

/// Requests count a list's head alone.
const HEAD_BYTES: usize = 8;

/// Virtual CPUs that doorbells are there for.
const ROUTES_MAX: usize = 128;

type Cpuid = List<CpuidEntry, 256>;
type Routes = List<Route, ROUTES_MAX>;

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// Of these; what there is no room for is left out.
    fn of(values: impl Iterator<Item = T>) -> List<T, N> {
        let mut list = List {
            used: 0,
            flags: 0,
            entries: [T::default(); N],
        };
        for (entry, value) in list.entries.iter_mut().zip(values) {
            *entry = value;
            list.used += 1;
        }
        list
    }
}

/// `struct kvm_cpuid_entry2`, which nobody looks into.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CpuidEntry([u32; 10]);

/// `struct kvm_irq_routing_entry` with a `struct kvm_irq_routing_msi`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Route {
    gsi: u32,
    kind: u32,
    flags: u32,
    pad: u32,
    address_lo: u32,
    address_hi: u32,
    data: u32,
    rest: [u32; 5],
}

/// `struct kvm_userspace_memory_region`
#[repr(C)]
struct Memory {
    slot: u32,
    flags: u32,
    guest_address: u64,
    bytes: u64,
    address: u64,
}

/// `struct kvm_ioeventfd`
#[repr(C)]
struct Ioeventfd {
    datamatch: u64,
    address: u64,
    length: u32,
    fd: i32,
    flags: u32,
    pad: [u8; 36],
}

/// `struct kvm_irqfd`
#[repr(C)]
struct Irqfd {
    fd: u32,
    gsi: u32,
    flags: u32,
    resample_fd: u32,
    pad: [u8; 16],
}

/// `struct kvm_regs`
#[derive(Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub(super) struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rsp: u64,
    pub rbp: u64,
    pub r8_to_r15: [u64; 8],
    pub rip: u64,
    pub rflags: u64,
}

/// `struct kvm_segment`
#[derive(Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub(super) struct Segment {
    pub base: u64,
    pub limit: u32,
    pub selector: u16,
    pub kind: u8,
    pub present: u8,
    pub dpl: u8,
    pub db: u8,
    pub s: u8,
    pub l: u8,
    pub g: u8,
    pub avl: u8,
    pub unusable: u8,
    pub padding: u8,
}

/// `struct kvm_dtable`
#[derive(Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub(super) struct Table {
    pub base: u64,
    pub limit: u16,
    pub padding: [u16; 3],
}

/// `struct kvm_sregs`
#[derive(Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub(super) struct System {
    pub cs: Segment,
    pub ds: Segment,
    pub es: Segment,
    pub fs: Segment,
    pub gs: Segment,
    pub ss: Segment,
    pub tr: Segment,
    pub ldt: Segment,
    pub gdt: Table,
    pub idt: Table,
    pub cr0: u64,
    pub cr2_cr3_cr4_cr8: [u64; 4],
    pub efer: u64,
    pub apic_base: u64,
    pub interrupt_bitmap: [u64; 4],
}

/// `struct kvm_lapic_state`: the registers of the local interrupt controller.
#[repr(C)]
pub(super) struct Lapic(pub [u8; 1024]);

/// `/dev/kvm`.
pub(super) struct Kvm(File);

impl Kvm {
    pub fn open() -> io::Result<Kvm> {
        let device = File::options().read(true).write(true).open("/dev/kvm")?;
        Ok(Kvm(device))
    }

    pub fn create_vm(&self) -> io::Result<Vm> {
        CREATE_VM.descriptor(&self.0, 0).map(Vm)
    }

    /// A virtual CPU that has all that KVM can give it, and may run at once.
    pub fn create_vcpu(&self, vm: &Vm, id: u32) -> io::Result<Vcpu> {
        let fd = CREATE_VCPU.descriptor(&vm.0, id as usize)?;
        let shared = VCPU_MMAP_SIZE.by_number(&self.0, 0)?;
        let length = NonZeroUsize::new(shared as usize).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: a new mapping of what the kernel shares; it stays for the process's life
        let shared = unsafe {
            let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            mmap(None, length, protection, MapFlags::MAP_SHARED, &fd, 0)
        }?;
        // SAFETY: an aligned word within the mapping, which the kernel alone writes, during a run
        let exit_reason = unsafe {
            let word = shared.cast::<u8>().add(EXIT_REASON_AT);
            &*word.cast::<AtomicU32>().as_ptr()
        };
        let mut cpuid = Cpuid {
            used: 256,
            flags: 0,
            entries: [CpuidEntry::default(); 256],
        };
        SUPPORTED_CPUID.with(&self.0, &mut cpuid)?;
        SET_CPUID.with(&fd, &mut cpuid)?;
        SET_MP_STATE.with(&fd, &mut { MP_STATE_RUNNABLE })?;
        Ok(Vcpu { fd, exit_reason })
    }
}

/// A virtual machine.
pub(super) struct Vm(OwnedFd);

impl Vm {
    /// # Safety
    /// The memory stays as long as the machine.
    pub unsafe fn set_memory(&self, address: *const u8, bytes: u64) -> io::Result<()> {
        let mut memory = Memory {
            slot: 0,
            flags: 0,
            guest_address: 0,
            bytes,
            address: address as u64,
        };
        SET_MEMORY.with(&self.0, &mut memory)
    }

    pub fn set_tss_address(&self, address: usize) -> io::Result<()> {
        SET_TSS_ADDRESS.by_number(&self.0, address).map(drop)
    }

    pub fn create_irq_chip(&self) -> io::Result<()> {
        CREATE_IRQCHIP.by_number(&self.0, 0).map(drop)
    }

    /// Interrupt line n becomes the n-th of these messages: address and data.
    pub fn set_messages(&self, messages: &[(u32, u32)]) -> io::Result<()> {
        if messages.len() > ROUTES_MAX {
            return Err(io::ErrorKind::ArgumentListTooLong.into());
        }
        let route = |(gsi, &(address_lo, data)): (u32, &(u32, u32))| Route {
            gsi,
            kind: IRQ_ROUTING_MSI,
            address_lo,
            data,
            ..Route::default()
        };
        let mut routes = Routes::of((0..).zip(messages).map(route));
        SET_GSI_ROUTING.with(&self.0, &mut routes)
    }

    /// Whatever is written to a port adds to the event, which raises an interrupt line.
    pub fn connect(&self, port: u64, event: &EventFd, line: u32) -> io::Result<()> {
        let fd = event.as_raw_fd();
        let mut from = Ioeventfd {
            datamatch: 0,
            address: port,
            length: 0,
            fd,
            flags: IOEVENTFD_FLAG_PIO,
            pad: [0; 36],
        };
        let mut to = Irqfd {
            fd: fd as u32,
            gsi: line,
            flags: 0,
            resample_fd: 0,
            pad: [0; 16],
        };
        IOEVENTFD.with(&self.0, &mut from)?;
        IRQFD.with(&self.0, &mut to)
    }
}

/// A virtual CPU.
pub(super) struct Vcpu {
    fd: OwnedFd,
    exit_reason: &'static AtomicU32,
}

impl Vcpu {
    pub fn set_registers(&self, mut registers: Registers) -> io::Result<()> {
        SET_REGS.with(&self.fd, &mut registers)
    }

    /// Changes the registers of the system, such as segments.
    pub fn change_system(&self, change: impl FnOnce(&mut System)) -> io::Result<()> {
        let mut system = System::default();
        GET_SREGS.with(&self.fd, &mut system)?;
        change(&mut system);
        SET_SREGS.with(&self.fd, &mut system)
    }

    /// Changes registers of the local interrupt controller.
    pub fn change_lapic(&self, change: impl FnOnce(&mut Lapic)) -> io::Result<()> {
        let mut lapic = Lapic([0; 1024]);
        GET_LAPIC.with(&self.fd, &mut lapic)?;
        change(&mut lapic);
        SET_LAPIC.with(&self.fd, &mut lapic)
    }

    /// Runs until the guest does what KVM alone cannot: its `KVM_EXIT_` number.
    pub fn run(&self) -> io::Result<u32> {
        loop {
            match RUN.by_number(&self.fd, 0) {
                Ok(_) => match self.exit_reason.load(Ordering::Relaxed) {
                    EXIT_INTR => {}
                    reason => return Ok(reason),
                },
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN) => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a C compiler makes of linux/kvm.h.
    #[test]
    fn requests_have_the_numbers_of_the_headers() {
        let numbers = [
            (CREATE_VM.number, 0xae01),
            (SUPPORTED_CPUID.number, 0xc008_ae05),
            (SET_MEMORY.number, 0x4020_ae46),
            (SET_GSI_ROUTING.number, 0x4008_ae6a),
            (IRQFD.number, 0x4020_ae76),
            (IOEVENTFD.number, 0x4040_ae79),
            (RUN.number, 0xae80),
            (SET_REGS.number, 0x4090_ae82),
            (GET_SREGS.number, 0x8138_ae83),
            (SET_SREGS.number, 0x4138_ae84),
            (GET_LAPIC.number, 0x8400_ae8e),
            (SET_CPUID.number, 0x4008_ae90),
            (SET_MP_STATE.number, 0x4004_ae99),
        ];
        for (ours, theirs) in numbers {
            assert_eq!(ours, theirs, "{ours:#x}");
        }
        assert_eq!((size_of::<CpuidEntry>(), size_of::<Route>()), (40, 48));
    }
}
