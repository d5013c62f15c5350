//! What to do about machines on which the scheduler cannot run: errors and the doctor say the same.

/// The oldest kernel that Sidelane is tested on. sched_ext itself is there since 6.12.
pub const KERNEL_MIN: (u32, u32) = (6, 16);

/// What to do about cookies.
pub(crate) const STOP_COOKIES: &str = "stop these programs, or start them without core scheduling \
    (cloud-hypervisor: --cpus core_scheduling=off)";

/// What to do where the kernel is no good.
pub(crate) fn boot_a_kernel() -> String {
    format!("boot {}, built with CONFIG_SCHED_CLASS_EXT=y", kernels())
}

/// The kernels that Sidelane is tested on.
pub(crate) fn kernels() -> String {
    let (major, minor) = KERNEL_MIN;
    format!("Linux {major}.{minor} or later")
}
