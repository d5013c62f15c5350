//! The machine that runs now: booted for the first test of a shape, shut after the last.

use crate::inside::{ARGUMENT, ENDED, PASSED};
use crate::matmul;
use crate::shape::{self, Shape};
use sidelane_testbed::LAST_WORDS;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Wall time in which all tests of a shape end, s.
const TIMEOUT_S: &str = "2400";
/// Where the kernel was when it died stands on a line with this.
const PLACE: &str = "RIP:";

/// A kernel that changes its code while lanes come and go puts breakpoints there for a moment. Now and then the
/// emulator shows one to a lane that comes after the kernel has taken it away.
const ASTRAY: &str = "Oops: int3";

/// Boots machines, and runs tests on one at a time.
pub struct Machines {
    sidelane: String,
    /// Whether what tests print is shown at once.
    shows: bool,
    /// Whether the next one is booted ahead: where all tests run.
    hurries: bool,
    now: Option<Machine>,
    ahead: Option<Machine>,
}

struct Machine {
    shape: &'static str,
    child: Child,
    names: ChildStdin,
    lines: Receiver<String>,
}

impl Machines {
    pub fn new(sidelane: &str, shows: bool, hurries: bool) -> Machines {
        Machines {
            sidelane: sidelane.to_owned(),
            shows,
            hurries,
            now: None,
            ahead: None,
        }
    }

    /// Runs a test on a machine of that shape; what it printed, if it fails. A machine that the emulator led
    /// astray ([`ASTRAY`]) is booted once more.
    pub fn run(&mut self, shape: &Shape, name: &str) -> Result<(), String> {
        self.run_once(shape, name).or_else(|said| {
            if !said.contains(ASTRAY) {
                return Err(said);
            }
            println!("once more, for the machine ended: {ASTRAY}");
            self.run_once(shape, name)
        })
    }

    fn run_once(&mut self, shape: &Shape, name: &str) -> Result<(), String> {
        if self.now.as_ref().is_none_or(|now| now.shape != shape.name) {
            shut(self.now.take())?;
            self.now = Some(match self.ahead.take() {
                Some(ahead) if ahead.shape == shape.name => ahead,
                other => {
                    shut(other)?;
                    Machine::boot(&self.sidelane, shape)
                }
            });
            let mut all = shape::ALL.iter();
            let next = all.find(|next| self.hurries && Some(next.name) == shape.ahead);
            self.ahead = next.map(|next| Machine::boot(&self.sidelane, next));
        }
        let machine = self.now.as_mut().unwrap();
        // a machine that is gone shows by the end of its output
        let _ = writeln!(machine.names, "{name}");
        let mut printed = String::new();
        while let Ok(line) = machine.lines.recv() {
            if let Some(ended) = line.strip_prefix(ENDED) {
                return match ended == PASSED {
                    true => Ok(()),
                    false => Err(printed),
                };
            }
            if self.shows {
                println!("{line}");
            }
            printed += &line;
            printed.push('\n');
        }
        let ended = self.now.take().unwrap().child.wait();
        Err(format!(
            "{printed}{}",
            last_words(&printed, &format!("{ended:?}"))
        ))
    }

    /// Shuts the machines that run.
    pub fn shut(&mut self) -> Result<(), String> {
        shut(self.now.take()).and(shut(self.ahead.take()))
    }
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
    fn boot(sidelane: &str, shape: &Shape) -> Machine {
        matmul::build();
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
            .args(shape.machine);
        for program in [&tests, &matmul::path(false), &matmul::path(true)] {
            command.arg("--add").arg(program);
        }
        command
            .args(["--add", "/usr/bin/gzip", "--keep-awake", "--"])
            .arg(&tests)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        forward(child.stdout.take().unwrap(), sender.clone());
        forward(child.stderr.take().unwrap(), sender);
        Machine {
            shape: shape.name,
            names: child.stdin.take().unwrap(),
            child,
            lines,
        }
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
