//! The machines that run now: each booted for the first test of a shape, shut after the last.

use crate::inside::{ARGUMENT, ENDED, PASSED};
use crate::shape::Shape;
use crate::tests::lanes::{build_matmul, matmul};
use crate::{Runs, Test};
use sidelane_testbed::LAST_WORDS;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::thread;
use std::time::{Duration, Instant};

/// Wall time in which all tests of a shape end, s.
const TIMEOUT_S: &str = "2400";
/// Where the kernel was when it died stands on a line with this.
const PLACE: &str = "RIP:";

/// The host stood still if its programs did for so long.
const STILL: Duration = Duration::from_secs(5);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A kernel that changes its code while lanes come and go puts breakpoints there for a moment. Now and then the
/// emulator shows one to a lane that comes after the kernel has taken it away.
const ASTRAY: &str = "Oops: int3";

/// Boots machines, and runs tests on them: what measures times alone, the others two at once.
pub struct Machines {
    sidelane: String,
    /// Whether what tests print is shown at once.
    shows: bool,
    /// Written to while times are measured.
    quiet: RwLock<()>,
    /// The machines that run now: two that [`Runs::BesideOthers`], and the one for tests that run alone.
    now: [Mutex<Option<Machine>>; 3],
}

struct Machine {
    shape: &'static str,
    child: Child,
    names: ChildStdin,
    lines: Receiver<String>,
}

impl Machines {
    pub fn new(sidelane: &str, shows: bool) -> Machines {
        Machines {
            sidelane: sidelane.to_owned(),
            shows,
            quiet: RwLock::new(()),
            now: Default::default(),
        }
    }

    /// Runs a test on a machine of that shape; what it printed, if it fails. It runs once more where the emulator led the
    /// machine astray ([`ASTRAY`]), and where the host stood still meanwhile: to the machine that is a stall of all tasks.
    pub fn run(&self, shape: &Shape, test: Test) -> Result<(), String> {
        let mut now = self.place(shape, test);
        let host = Host::watched();
        self.run_once(&mut now, shape, test).or_else(|said| {
            let stood = host.stood_still();
            if !said.contains(ASTRAY) && stood < STILL {
                return Err(format!(
                    "{said}meanwhile the host stood still for {stood:.1?} at most\n"
                ));
            }
            println!("once more; the host stood still for {stood:.0?}; the machine said:\n{said}");
            self.run_once(&mut now, shape, test)
        })
    }

    /// The place of a machine for a test, one that has such a machine if it is free.
    fn place(&self, shape: &Shape, test: Test) -> MutexGuard<'_, Option<Machine>> {
        let [one, other, alone] = &self.now;
        if test.runs != Runs::BesideOthers {
            return alone.lock().unwrap();
        }
        let mut free: Vec<_> = [one, other].into_iter().flat_map(Mutex::try_lock).collect();
        free.sort_by_key(|now| now.as_ref().is_some_and(|now| now.shape == shape.name));
        free.pop().unwrap_or_else(|| one.lock().unwrap())
    }

    fn run_once(&self, now: &mut Option<Machine>, shape: &Shape, test: Test) -> Result<(), String> {
        if now.as_ref().is_none_or(|now| now.shape != shape.name) {
            shut(now.take())?;
            *now = Some(Machine::boot(&self.sidelane, shape, test.runs)?);
        }
        let machine = now.as_mut().unwrap();
        let (_alone, _beside_others) = match test.runs {
            Runs::BesideOthers => (None, Some(self.quiet.read().unwrap())),
            Runs::Alone | Runs::UnderOneScheduler => (Some(self.quiet.write().unwrap()), None),
        };
        // a machine that is gone shows by the end of its output
        let _ = writeln!(machine.names, "{}", test.name());
        let (printed, ended) = machine.printed(self.shows);
        match ended.as_deref() {
            Some(PASSED) => Ok(()),
            // the next test is not to begin with what this one left, such as lanes that are offline
            Some(_) => {
                let ended = shut(now.take());
                Err(printed + &ended.err().unwrap_or_default())
            }
            None => Err(died(now.take(), &printed)),
        }
    }

    /// Shuts the machines that run.
    pub fn shut(&self) -> Result<(), String> {
        let mut ended = self.now.iter().map(|now| shut(now.lock().unwrap().take()));
        ended.try_for_each(|ended| ended)
    }
}

/// For how long the host stood still at a time, so that nothing ran on it: some are halted to be moved or saved.
struct Host {
    longest: Arc<Mutex<Duration>>,
}

impl Host {
    /// Is looked at until this goes.
    fn watched() -> Host {
        let longest = Arc::new(Mutex::new(Duration::ZERO));
        let kept = Arc::downgrade(&longest);
        thread::spawn(move || {
            let mut before = Instant::now();
            loop {
                thread::sleep(LOOK);
                let Some(longest) = kept.upgrade() else {
                    return;
                };
                let passed = before.elapsed().saturating_sub(LOOK);
                before = Instant::now();
                let mut longest = longest.lock().unwrap();
                *longest = passed.max(*longest);
            }
        });
        Host { longest }
    }

    /// The longest time.
    fn stood_still(&self) -> Duration {
        // the look after a halt may come later than what a machine says
        thread::sleep(2 * LOOK);
        *self.longest.lock().unwrap()
    }
}

/// What a machine that has died printed, and why it did.
fn died(machine: Option<Machine>, printed: &str) -> String {
    let ended = machine.map(|mut machine| machine.child.wait());
    format!("{printed}{}", last_words(printed, &format!("{ended:?}")))
}

/// Shuts a machine, if there is one.
fn shut(machine: Option<Machine>) -> Result<(), String> {
    let Some(Machine {
        shape,
        mut child,
        names,
        lines,
    }) = machine
    else {
        return Ok(());
    };
    drop(names);
    let printed: Vec<String> = lines.iter().collect();
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        ended => Err(format!(
            "{}\nthe machine {shape} ended with {ended:?}",
            printed.join("\n")
        )),
    }
}

impl Machine {
    /// Returns when it is ready for tests.
    fn boot(sidelane: &str, shape: &Shape, runs: Runs) -> Result<Machine, String> {
        build_matmul();
        let tests = std::env::current_exe().unwrap();
        let kernel =
            std::env::var("SIDELANE_TEST_KERNEL").unwrap_or_else(|_| shape.kernel.to_owned());
        let mut command = Command::new(sidelane);
        command
            .args([
                "testbed",
                "run",
                "--timeout",
                TIMEOUT_S,
                "--kernel",
                &kernel,
            ])
            .args(shape.machine)
            .args((shape.here)());
        for program in [&tests, &matmul(false), &matmul(true)] {
            command.arg("--add").arg(program);
        }
        command
            .args(["--add", "/usr/bin/gzip"])
            .args(["--add", "/usr/bin/redis-server"])
            .arg(match runs {
                Runs::BesideOthers => "--float",
                Runs::Alone | Runs::UnderOneScheduler => "--keep-awake",
            })
            .arg("--")
            .arg(&tests)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        forward(child.stdout.take().unwrap(), sender.clone());
        forward(child.stderr.take().unwrap(), sender);
        let machine = Machine {
            shape: shape.name,
            names: child.stdin.take().unwrap(),
            child,
            lines,
        };
        match machine.printed(false) {
            (_, Some(_)) => Ok(machine),
            (printed, None) => Err(died(Some(machine), &printed)),
        }
    }

    /// What it prints until something has ended, or it has booted, and what it says of that; nothing if it is gone.
    fn printed(&self, shows: bool) -> (String, Option<String>) {
        let mut printed = String::new();
        for line in &self.lines {
            if let Some(ended) = line.strip_prefix(ENDED) {
                return (printed, Some(ended.to_owned()));
            }
            if shows {
                println!("{line}");
            }
            printed += &line;
            printed.push('\n');
        }
        (printed, None)
    }
}

/// Sends the lines of a stream.
fn forward(stream: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            if sender.send(text.trim_end_matches('\r').to_owned()).is_err() {
                return;
            }
        }
    });
}

/// How the machine ended, and why if its kernel said so.
fn last_words(printed: &str, ended: &str) -> String {
    let tells = |line: &str| {
        LAST_WORDS
            .iter()
            .chain([&PLACE])
            .any(|word| line.contains(word))
    };
    let fatal = printed.lines().filter(|line| tells(line));
    let fatal: Vec<&str> = fatal.take(8).collect();
    format!("the machine ended with {ended}\n{}", fatal.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_s_last_words_are_repeated_at_the_end() {
        let printed = "test\n[ 1.0] Oops: int3: 0000 [#1]\n[ 1.0] RAX: 0\n[ 1.0] RIP: 0010:x+0x1\n";
        let said = last_words(printed, "exit status: 125");
        assert_eq!(
            said,
            "the machine ended with exit status: 125\n[ 1.0] Oops: int3: 0000 [#1]\n[ 1.0] RIP: 0010:x+0x1"
        );
    }
}
