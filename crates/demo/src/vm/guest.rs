//! What a virtual CPU runs: a few instructions of 32-bit code without paging.
//!
//! `esi` is the address of the virtual CPU's page throughout: its mailbox at 0, the count of what it has
//! done at 8, matrices behind its stack.

use std::arch::global_asm;

/// Where in the guest's memory the descriptor tables and the code are.
pub(super) const GDT: u64 = 0x1000;
pub(super) const IDT: u64 = 0x2000;
const CODE: u64 = 0x3000;
/// The pages of the virtual CPUs, one after the other.
pub(super) const PAGES: u64 = 0x1_0000;
pub(super) const PAGE_BYTES: u64 = 0x8000;
/// Where in such a page the count is; the stack grows down from its end.
#[cfg(test)]
pub(super) const COUNT: u64 = 8;
pub(super) const STACK_END: u64 = 0x1000;
/// The interrupt that says that there is something in the mailbox.
pub(super) const VECTOR: u8 = 0x20;
/// The doorbell of the first virtual CPU; the others follow, four ports apart.
pub(super) const DOORBELLS: u16 = 0x500;

global_asm!(
    ".pushsection .rodata.sidelane_guest, \"a\"",
    // the linker finds them by name: optimized, this and what uses it are different objects
    ".globl sidelane_guest_start",
    ".hidden sidelane_guest_start",
    ".globl sidelane_guest_ping_pong",
    ".hidden sidelane_guest_ping_pong",
    ".globl sidelane_guest_device",
    ".hidden sidelane_guest_device",
    ".globl sidelane_guest_interrupt",
    ".hidden sidelane_guest_interrupt",
    ".globl sidelane_guest_multiply",
    ".hidden sidelane_guest_multiply",
    ".globl sidelane_guest_end",
    ".hidden sidelane_guest_end",
    ".code32",
    "sidelane_guest_start:",
    // Ping-pong: computes ebp turns, rings the other's doorbell (edx), sleeps until its own was rung.
    // With eax = 0 it sleeps first.
    "sidelane_guest_ping_pong:",
    "test eax, eax",
    "jz 3f",
    "2: mov ecx, ebp",
    "21: dec ecx",
    "jnz 21b",
    "add dword ptr [esi + 8], 1",
    "adc dword ptr [esi + 12], 0",
    "out dx, eax",
    "3: cli",
    "cmp dword ptr [esi], 0",
    "jne 4f",
    "sti",
    "hlt",
    "jmp 3b",
    "4: mov dword ptr [esi], 0",
    "sti",
    "jmp 2b",
    // Device: computes ebp turns, sets the timer to edx ns, sleeps until it has rung.
    "sidelane_guest_device:",
    "mov edi, 0xfee003e0", // counts by one
    "mov dword ptr [edi], 0xb",
    "mov edi, 0xfee00320", // rings once, the interrupt below
    "mov dword ptr [edi], 0x20",
    "6: mov ecx, ebp",
    "61: dec ecx",
    "jnz 61b",
    "add dword ptr [esi + 8], 1",
    "adc dword ptr [esi + 12], 0",
    "mov edi, 0xfee00380",
    "mov [edi], edx",
    "7: cli",
    "cmp dword ptr [esi], 0",
    "jne 8f",
    "sti",
    "hlt",
    "jmp 7b",
    "8: mov dword ptr [esi], 0",
    "sti",
    "jmp 6b",
    // Somebody rang: says so in the mailbox and to the interrupt controller.
    "sidelane_guest_interrupt:",
    "mov dword ptr [esi], 1",
    "push edi",
    "mov edi, 0xfee000b0",
    "mov dword ptr [edi], 0",
    "pop edi",
    "iretd",
    // Multiplies two matrices of 32 rows and columns again and again.
    "sidelane_guest_multiply:",
    "5: xor ebx, ebx",
    "51: xor ecx, ecx",
    "52: xor edx, edx",
    "xor eax, eax",
    "53: mov edi, ebx",
    "shl edi, 5",
    "add edi, edx",
    "mov ebp, [esi + edi*4 + 0x2000]",
    "mov edi, edx",
    "shl edi, 5",
    "add edi, ecx",
    "imul ebp, [esi + edi*4 + 0x3000]",
    "add eax, ebp",
    "inc edx",
    "cmp edx, 32",
    "jb 53b",
    "mov edi, ebx",
    "shl edi, 5",
    "add edi, ecx",
    "mov [esi + edi*4 + 0x4000], eax",
    "inc ecx",
    "cmp ecx, 32",
    "jb 52b",
    "inc ebx",
    "cmp ebx, 32",
    "jb 51b",
    "add dword ptr [esi + 8], 1",
    "adc dword ptr [esi + 12], 0",
    "jmp 5b",
    "sidelane_guest_end:",
    ".code64",
    ".popsection",
);

unsafe extern "C" {
    static sidelane_guest_start: u8;
    static sidelane_guest_end: u8;
    static sidelane_guest_ping_pong: u8;
    static sidelane_guest_device: u8;
    static sidelane_guest_interrupt: u8;
    static sidelane_guest_multiply: u8;
}

/// Where each piece of code is in the guest.
pub(super) fn ping_pong() -> u64 {
    address_of(&raw const sidelane_guest_ping_pong)
}

pub(super) fn device() -> u64 {
    address_of(&raw const sidelane_guest_device)
}

pub(super) fn multiply() -> u64 {
    address_of(&raw const sidelane_guest_multiply)
}

fn address_of(label: *const u8) -> u64 {
    CODE + (label.addr() - (&raw const sidelane_guest_start).addr()) as u64
}

/// What has to be in the guest's memory: where, and what.
pub(super) fn image() -> Vec<(u64, Vec<u8>)> {
    let start = &raw const sidelane_guest_start;
    let length = (&raw const sidelane_guest_end).addr() - start.addr();
    // SAFETY: the two labels are the ends of one piece of read-only data
    let code = unsafe { std::slice::from_raw_parts(start, length) }.to_vec();
    // none, code and data: flat, 4 GiB, privileged
    let gdt = [0_u64, 0x00cf_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
    let handler = address_of(&raw const sidelane_guest_interrupt);
    // a 32-bit interrupt gate to the code segment
    let gate = (handler & 0xffff) | (8 << 16) | (0x8e00 << 32) | ((handler >> 16) << 48);
    let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    vec![
        (GDT, bytes(&gdt)),
        (IDT + u64::from(VECTOR) * 8, bytes(&[gate])),
        (CODE, code),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_begins_with_the_ping_pong_and_fits_before_the_pages() {
        let image = image();
        let (address, code) = &image[2];
        assert_eq!(ping_pong(), *address);
        assert_eq!(code[..2], [0x85, 0xc0], "test eax, eax");
        assert!(multiply() > ping_pong() && multiply() < address + code.len() as u64);
        assert!(address + (code.len() as u64) < PAGES);
    }
}
