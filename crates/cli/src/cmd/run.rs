//! `sidelane run`: attach the scheduler until stopped.

use super::Format;
use crate::exit::{self, NO};
use sd_notify::NotifyState;
use sidelane_interface::Kind;
use sidelane_interface::say;
use sidelane_sched::status::Record;
use sidelane_sched::{Class, Config, Error, Event, Requests, Scope, rules_of_flag};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane run --config /etc/sidelane.toml
  sidelane run --critical unit:nginx.service --batch cgroup:/batch.slice
  sidelane run --critical 'comm:redis-server*' --batch exe:/usr/bin/xz
  sidelane run --critical unit:nginx.service --batch cgroup:/batch.slice --thread-perf 1,0.55
  sidelane run --only batch --batch cgroup:/batch.slice
  sidelane run --restore
  sidelane run --check --strict --config /etc/sidelane.toml

A configuration file that says what the second example does, and how fast the lanes are:

  [[rule]]
  match = \"unit:nginx.service\"
  class = \"critical\"

  [[rule]]
  match = \"cgroup:/batch.slice\"
  class = \"batch\"

  [scheduler]
  thread_perf = [1, 0.55]

Rules: cgroup:GLOB, unit:NAME, user-unit:NAME (of the system's and of users' managers; globs \
allowed; all of them with all cgroups below, also those made later), label:WORD (of 'sidelane mark'), exe:PATH, \
comm:THREAD-NAME (may end with *), user:NAME, policy:idle|batch|normal, nice:>=N|<=N|=N. The first that matches decides, in the file's order; rules given as flags \
may be repeated and come before the file's, critical before normal before batch. Tasks that \
no rule names are batch if they are SCHED_IDLE, else normal, with the weights of their nice values. \
A rule that can never match is an error, one that matches nothing now is none: --check shows what \
each rule and pool finds.

Attaching needs root. Ctrl-C and SIGTERM detach the scheduler (exit code 0); the kernel's \
default one takes over. If the kernel ejects the scheduler, the exit code is 1; by SysRq-S, 6. SIGHUP reads the \
configuration again, unless this runs in a terminal: if it can be used and is another one, the \
scheduler is attached anew; what was tuned stays where the file says what it said.

With --only batch the threads of batch get the policy SCHED_EXT and nice value 19, and those that they \
had when the scheduler is detached or rules call them batch no longer. What they had is kept in \
/run/sidelane/adopted meanwhile. Killed with SIGKILL, the scheduler restores nothing: the next 'sidelane run' does, \
or 'sidelane run --restore'.";

/// Attach the scheduler and keep it until stopped (Ctrl-C); needs root.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Read the configuration, show what each rule and pool finds now, and attach nothing.
    #[arg(long)]
    check: bool,
    /// With --check: exit with 5 if a rule or pool finds nothing, a rule can never decide, or the machine or its
    /// kernel does not tell or do what is set.
    #[arg(long, requires = "check")]
    strict: bool,
    /// Give batch tasks their policy and nice value back that a killed 'sidelane run --only batch' left; nothing to do is no error.
    #[arg(long, exclusive = true)]
    restore: bool,
    /// How --check prints.
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "check")]
    format: Format,
    /// Configuration file (TOML); there is no default one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Work that somebody waits for.
    #[arg(long, value_name = "RULE")]
    critical: Vec<String>,
    /// Work that is neither.
    #[arg(long, value_name = "RULE")]
    normal: Vec<String>,
    /// Work that may wait.
    #[arg(long, value_name = "RULE")]
    batch: Vec<String>,
    /// Schedule these tasks alone; the kernel's scheduler keeps all others.
    #[arg(long, value_name = "batch")]
    only: Option<Scope>,
    /// Speed of a lane when 1, 2, ... lanes of its core run, as 'sidelane calibrate' prints it; before the
    /// file's.
    #[arg(long, value_name = "1,S,...", value_delimiter = ',')]
    thread_perf: Option<Vec<f64>>,
}

/// Runs `sidelane run`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.check {
        let check = sidelane_sched::check(&args.config()?, Path::new("/"))?;
        args.format
            .print(Kind::Check, || check.to_string(), &check)?;
        if !args.strict || check.doubts.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        for doubt in &check.doubts {
            say!("error: {doubt}");
        }
        return Ok(ExitCode::from(NO));
    }
    if args.restore {
        let news = sidelane_sched::restore()?;
        let said = news.map_or("batch: nothing to restore".to_owned(), |it| it.to_string());
        say!("sidelane: {said}");
        return Ok(ExitCode::SUCCESS);
    }
    let signals = exit::signals()?;
    let requests = Requests {
        stop: &signals.stop,
        reload: &signals.hangup,
    };
    let mut record = Record::new(Path::new("/"));
    let ended = sidelane_sched::run(&mut || args.config(), &requests, &mut |event| {
        // first: what hears of an attachment may ask 'sidelane status'
        warn(record.note(&event));
        tell(&event);
    });
    let code = ended.as_ref().err().map_or(0, exit::of_scheduler);
    warn(record.end(&ended, Some(code)));
    say!("sidelane: detached: {}", ended?);
    Ok(ExitCode::SUCCESS)
}

/// Without a word in the files of [`Record`] all goes on.
fn warn(written: io::Result<()>) {
    if let Err(error) = written {
        say!("sidelane: warning: 'sidelane status' will not know of this: /run/sidelane: {error}");
    }
}

impl Args {
    /// What the file says now, and the flags.
    fn config(&self) -> Result<Config, Error> {
        let mut before = Config::default();
        before.scheduler.scope = self.only.unwrap_or_default();
        before.scope_origin = self.only.map(|_| "--only".to_owned());
        let mut config = match &self.config {
            Some(path) => Config::read_after(path, before)?,
            None => before,
        };
        let classes = [
            (Class::Critical, "--critical", &self.critical),
            (Class::Normal, "--normal", &self.normal),
            (Class::Batch, "--batch", &self.batch),
        ];
        let mut flags = Vec::new();
        for (class, flag, rules) in classes {
            flags.extend(rules_of_flag(class, flag, rules)?);
        }
        config.rules.splice(0..0, flags);
        if let Some(thread_perf) = &self.thread_perf {
            config.set_thread_perf("--thread-perf", thread_perf.clone())?;
        }
        config.check_whole()?;
        Ok(config)
    }
}

fn tell(event: &Event) {
    let text = event.to_string();
    say!("sidelane: {text}");
    let mut states = vec![NotifyState::Status(&text)];
    if let Event::Attached { .. } = event {
        states.push(NotifyState::Ready);
    }
    // without a service manager nobody is told
    let _ = sd_notify::notify(&states);
}
