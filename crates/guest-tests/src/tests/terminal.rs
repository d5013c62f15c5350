//! `sidelane top` on a terminal: a pseudo terminal with a terminal emulation behind it.

#[path = "../../../top/tests/screenshot/mod.rs"]
mod screenshot;

use super::support::*;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

tests! {
    #[shared]
    top_draws_sorts_and_leaves_the_terminal_as_it_was,
}

const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// A program on a terminal; killed when dropped.
struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn run(args: &[&str]) -> Terminal {
        let (ours, theirs) = pair();
        let mut command = Command::new(SIDELANE);
        command
            .args(args)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(theirs.try_clone().unwrap()))
            .stdout(Stdio::from(theirs));
        // SAFETY: only makes system calls between fork and exec
        unsafe { command.pre_exec(take_terminal) };
        let child = command.spawn().unwrap();
        let shown = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let (mut output, emulation) = (File::from(ours.try_clone().unwrap()), shown.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                emulation.lock().unwrap().process(&bytes[..count]);
            }
        });
        Terminal {
            child,
            keys: File::from(ours),
            shown,
        }
    }

    fn text(&self) -> String {
        self.shown.lock().unwrap().screen().contents()
    }

    fn shows(&self, word: &str) {
        let wanted = format!("{word} on the screen");
        eventually(&wanted, || self.text().contains(word));
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The two ends of a pseudo terminal.
fn pair() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize {
        ws_row: ROWS.get(),
        ws_col: COLUMNS.get(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: fills in the two descriptors, which are nobody else's
    unsafe {
        let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
        let opened = libc::openpty(&mut ours, &mut theirs, name, modes, &size);
        assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
        (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}

/// Makes its input the process's terminal.
fn take_terminal() -> std::io::Result<()> {
    // SAFETY: plain system calls on this process
    match unsafe { libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) == 0 } {
        true => Ok(()),
        false => Err(std::io::Error::last_os_error()),
    }
}

/// Prints the screen as text and, between two lines that say so, as a picture.
fn top_draws_sorts_and_leaves_the_terminal_as_it_was() {
    let scheduler = Scheduler::shared();
    let mut top = Terminal::run(&["top", "--thread-perf", "1,0.6,0.5,0.4"]);
    top.shows("waiting for the first interval");
    // only now: beside them its collector takes long to load
    let _critical = Load::critical_jobs(2_000, "0.02");
    let _batch: Vec<Load> = (0..3).map(|_| Load::spin_in("batch")).collect();
    let _normal = Load::spin_in("web");
    top.shows("p99 of critical jobs");
    top.press("F");
    top.shows("FORCED▾");
    // the next intervals, with what has settled by then
    std::thread::sleep(Duration::from_secs(3));
    {
        let shown = top.shown.lock().unwrap();
        println!("{}", shown.screen().contents());
        println!(
            "<!-- screen -->\n{}<!-- end -->",
            screenshot::svg(shown.screen())
        );
        assert!(shown.screen().alternate_screen());
    }
    let text = top.text();
    assert!(text.contains("density") && text.contains("yes"), "{text}");
    let mut tasks = text.lines().skip_while(|line| !line.contains("FORCED▾"));
    let first = tasks.nth(1).unwrap().to_owned();
    assert!(first.contains("critical"), "{text}");
    top.press("t");
    top.shows("/critical");
    top.press("q");
    assert!(top.child.wait().unwrap().success());
    eventually("the screen is left", || {
        !top.shown.lock().unwrap().screen().alternate_screen()
    });
    scheduler.leave();
}
