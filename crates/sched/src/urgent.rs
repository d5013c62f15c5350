//! Loading takes long where lanes are busy: the kernel's verifier has its turns like any other work.

use libc::{PRIO_PROCESS, getpriority, setpriority};

/// As long as this lives, the calling thread comes before ordinary work: a machine that waits for its
/// scheduler after lanes came or went is without it for a short time, however busy it is. Without the
/// privilege for it nothing changes.
pub(crate) struct Urgent {
    nice_before: i32,
}

const MOST_URGENT: i32 = -20;

impl Urgent {
    /// From now on. Threads that are started meanwhile would stay so.
    pub(crate) fn new() -> Urgent {
        // SAFETY: plain system calls about the calling thread, which is there
        unsafe {
            let nice_before = getpriority(PRIO_PROCESS, 0);
            setpriority(PRIO_PROCESS, 0, MOST_URGENT);
            Urgent { nice_before }
        }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: as above
        unsafe { setpriority(PRIO_PROCESS, 0, self.nice_before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        // SAFETY: a plain system call about this thread
        unsafe { getpriority(PRIO_PROCESS, 0) }
    }

    #[test]
    fn it_is_as_it_was_afterwards() {
        let (before, allowed) = (nice(), nix::unistd::geteuid().is_root());
        let urgent = Urgent::new();
        assert_eq!(nice(), if allowed { MOST_URGENT } else { before });
        drop(urgent);
        assert_eq!(nice(), before);
    }
}
