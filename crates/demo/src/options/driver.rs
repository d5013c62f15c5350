//! The measuring part, and how it is reached.

use super::{Message, OptionsPlan, Run, Setup};
use crate::driver;
use crate::error::{During, Error, Result};
use crate::experiment::{Measure, Observer};
use crate::machine::{Cgroups, Machine};
use crate::scheduler::Scheduler;
use crate::sys::Guarded;
use crate::turns::take_turns;
use sidelane_options::load::{self, Load};
use sidelane_options::server::{self, Totals};
use sidelane_topology::Topology;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CGROUP_PARENT: &str = "sidelane-options";
/// Pause after each change of the scheduler.
const SETTLE: Duration = Duration::from_millis(500);

/// The server, on the socket that is its standard input, until it is killed.
///
/// # Errors
/// Standard input is no such socket, or the server fails.
pub fn serve_standard_input(workers: usize) -> Result<()> {
    let socket: OwnedFd = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .during(|| "standard input".into())?;
    let totals = Totals::default();
    server::serve(&socket.into(), workers, &AtomicBool::new(false), &totals)?;
    Ok(())
}

impl Measure for OptionsPlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let driver = Driver::set_up(self, sidelane, stop, machine.clone())?;
        let setups = |repetition| self.setups(repetition);
        take_turns(
            &machine,
            self.repetitions,
            None,
            setups,
            observer,
            |setup, repetition, speed| driver.run(setup, repetition, speed),
        )
    }
}

/// Everything that is alive while measuring; processes before cgroups.
struct Driver<'a> {
    plan: &'a OptionsPlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    machine: Machine,
    client: UdpSocket,
    _server: Guarded,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a OptionsPlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        machine: Machine,
    ) -> Result<Driver<'a>> {
        let cgroups = Cgroups::enter(CGROUP_PARENT)?;
        let (client, server_end) = connected()?;
        let workers = machine.lane_count().to_string();
        let mut command = Command::new(sidelane);
        command
            .args(["demo", "serve-options", "--workers", &workers])
            .stdin(Stdio::from(OwnedFd::from(server_end)));
        let server = Guarded::spawn(&mut command, "the option server")?;
        cgroups.add("critical", server.pid())?;
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            machine,
            client,
            _server: server,
            cgroups,
        })
    }

    /// Goes through all loads under a scheduler.
    fn run(&self, setup: Setup, repetition: u32, units_per_core_s: f64) -> Result<Run> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let scheduler = match setup {
            Setup::Sidelane => Some(Scheduler::attach(&self.sidelane, &critical, &batch)?),
            Setup::Default => None,
        };
        std::thread::sleep(SETTLE);
        let of = |share: &f64| {
            let load = self.load(*share, repetition, units_per_core_s);
            load::run(&self.client, &load, self.stop).map_err(Error::from)
        };
        let outcomes = self.plan.loads.iter().map(of).collect::<Result<_>>()?;
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        Ok(Run {
            setup,
            repetition,
            outcomes,
        })
    }

    /// The same requests for all setups of a repetition, but for the speed of the moment.
    fn load(&self, share: f64, repetition: u32, units_per_core_s: f64) -> Load {
        let plan = self.plan;
        let mean_s = plan.mean_demand_ms / 1000.0;
        Load {
            rate_per_s: share * self.machine.cores.len() as f64 / mean_s,
            run_ms: plan.run_ms,
            settle_ms: plan.settle_ms,
            mean_paths: units_per_core_s * mean_s,
            deadline_us: (plan.deadline_ms * 1000.0) as u64,
            seed: plan.seed + u64::from(repetition),
        }
    }
}

/// A client's socket, and the server's to which it is connected.
fn connected() -> Result<(UdpSocket, UdpSocket)> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).during(|| "a socket".into());
    let (client, server) = (bind()?, bind()?);
    let address = server.local_addr().during(|| "a socket's address".into())?;
    client
        .connect(address)
        .during(|| "connecting a socket".into())?;
    server::prepare(&server)?;
    Ok((client, server))
}
