//! Makes a scenario of a seed. Small machines are much likelier than large ones, and the expected
//! number of steps is limited, so that a thousand seeds are a matter of seconds.

use super::plan::{Behaviour, Draws, Fault, Plan, PlannedTask, Span};
use super::settings::{settings, thread_perf};
use crate::Result;
use crate::machine::{Costs, Interference, Machine};
use crate::sched_ext::Sidelane;
use crate::scheduler::Pool;
use crate::task::{Class, Policy, TaskSpec};
use sidelane_policy::{Charge, Settings};
use sidelane_topology::{Builder, CoreSpec, Regular, Topology};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// About so many ticks of lanes, and so many rounds of tasks, are simulated.
const TICKS: u64 = 4_000;
const ROUNDS: u64 = 3_000;

/// The scenario of a seed.
pub(super) fn generate(draws: &mut Draws) -> Result<Plan> {
    let topology = topology(draws)?;
    let costs = costs(draws);
    let widest = topology.lanes_per_core_max();
    let (interference, kinds) = interference(draws, widest);
    let mut machine = Machine::new(&topology, interference, costs)?;
    machine.misses = (0..3).map(|kind| f64::from(kind) / 2.0).collect();
    let mut sidelane = Sidelane::from(settings(draws, widest));
    let mut tasks = tasks(draws, &machine, kinds);
    if draws.percent(25) && !sidelane.settings.only_batch() {
        sidelane.pools = pools(draws, &machine);
        for task in &mut tasks {
            let pool = draws.below(sidelane.pools.len() as u64) as usize;
            task.spec.pool = draws.percent(60).then_some(pool);
        }
    }
    for (index, task) in tasks.iter_mut().enumerate() {
        let spec = &mut task.spec;
        let one_lane = spec.cpus.as_ref().is_some_and(|cpus| cpus.len() == 1);
        spec.kernel_thread =
            index % 2 == 0 && one_lane && spec.class == Class::Normal && spec.pool.is_none();
    }
    let length_ns = length_ns(draws, &machine, &tasks);
    let faults: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|_| draws.percent(60))
        .collect();
    let some = !faults.is_empty() && draws.percent(80);
    let mut plan = Plan {
        quantum_ns: *draws.one(&[1, 1, 1_000, 100_000, MS]).unwrap_or(&1),
        fault_gap_ns: some.then(|| length_ns / draws.between(2, 40)),
        faults,
        machine,
        sidelane,
        tasks,
        length_ns,
    };
    if draws.percent(10) {
        compete(draws, &mut plan)?;
    }
    Ok(plan)
}

/// Makes it a plan of normal tasks, many of which are bound to a lane and many never sleep, on cores of one lane, for long: so that their
/// shares are seen.
fn compete(draws: &mut Draws, plan: &mut Plan) -> Result<()> {
    let cores = draws.between(1, 6) as u32;
    let topology = Topology::regular(&Regular::one_package(cores, 1));
    let topology = topology.map_err(|error| crate::Error::BadMachine(error.to_string()))?;
    let costs = plan.machine.costs;
    plan.machine = Machine::new(&topology, Interference::ThreadPerf(vec![1.0]), costs)?;
    let fair_slice_ns = draws.magnitude(MS / 2, 5 * MS);
    plan.sidelane = Sidelane::from(Settings {
        fair_slice_ns,
        ..Settings::default()
    });
    plan.tasks.truncate(40);
    for task in &mut plan.tasks {
        let bound_to = draws
            .percent(60)
            .then(|| draws.below(2.min(cores.into())) as u32);
        task.spec = TaskSpec {
            name: std::mem::take(&mut task.spec.name),
            nice: match draws.percent(60) {
                true => draws.below(40) as i32 - 20,
                false => 0,
            },
            cpus: bound_to.map(|cpu| vec![cpu]),
            ..TaskSpec::new("", Class::Normal)
        };
        if draws.percent(50) {
            task.behaviour = Behaviour::Spin;
        }
    }
    if draws.percent(80) {
        (plan.faults, plan.fault_gap_ns) = (Vec::new(), None);
    }
    plan.length_ns = (20 * plan.length_ns).min(2_000 * MS);
    Ok(())
}

fn topology(draws: &mut Draws) -> Result<Topology> {
    let cores = match draws.below(100) {
        0..55 => draws.between(1, 4),
        55..85 => draws.between(5, 16),
        85..97 => draws.between(17, 64),
        _ => draws.between(65, 256),
    };
    let widest = *draws.one(&[1, 2, 2, 2, 2, 3, 4, 4, 8]).unwrap_or(&2);
    let hybrid = draws.percent(30);
    let per_cache = draws.between(1, cores.min(16));
    let per_node = per_cache * draws.between(1, 4);
    let per_package = per_node * draws.between(1, 2);
    let offline = if draws.percent(25) { 20 } else { 0 };
    let adjacent = draws.percent(50);
    let mut builder = Builder::new();
    for core in 0..cores {
        let lanes = if hybrid && draws.percent(50) {
            1
        } else {
            widest
        };
        let cpu = |lane: u64| match adjacent {
            true => (core * widest + lane) as u32,
            false => (lane * cores + core) as u32,
        };
        // The first lane of the first core stays: some lane has to be online.
        let off: Vec<u32> = (0..lanes)
            .map(cpu)
            .filter(|&cpu| cpu > 0 && draws.percent(offline))
            .collect();
        let capacity = match hybrid {
            true => *draws.one(&[512, 700, 1024, 1024]).unwrap_or(&1024),
            false => 1024,
        };
        builder = builder.core(
            CoreSpec::new((0..lanes).map(cpu))
                .capacity(capacity)
                .cache(3, (core / per_cache) as u32)
                .node((core / per_node) as u32)
                .package((core / per_package) as i32)
                .offline(off),
        );
    }
    let built = builder.build();
    built.map_err(|error| crate::Error::BadMachine(error.to_string()))
}

fn costs(draws: &mut Draws) -> Costs {
    let tick_ns = *draws.one(&[MS, 4 * MS, 4 * MS, 10 * MS]).unwrap_or(&MS);
    let costs = match draws.below(10) {
        0..2 => Costs::none(),
        2..6 => Costs::default(),
        _ => Costs {
            resume_ns: None,
            refill_ns: 0,
            switch_ns: draws.magnitude(1, 10 * US),
            kick_ns: draws.magnitude(1, 50 * US),
            idle_exit_ns: draws.magnitude(1, 200 * US),
            migrate_core_ns: draws.magnitude(1, US),
            migrate_cache_ns: draws.magnitude(1, 20 * US),
            migrate_node_ns: draws.magnitude(1, 100 * US),
            migrate_remote_ns: draws.magnitude(1, 200 * US),
            tick_ns,
        },
    };
    Costs { tick_ns, ..costs }
}

/// And how many kinds of tasks there are.
fn interference(draws: &mut Draws, widest: usize) -> (Interference, usize) {
    if draws.percent(20) {
        let kinds = draws.between(1, 3) as usize;
        // Speeds beside several siblings multiply.
        let least = [300, 300, 300, 500, 600].get(widest).unwrap_or(&750);
        let mut row = || (0..kinds).map(|_| draws.share(*least)).collect();
        return (
            Interference::Kinds((0..kinds).map(|_| row()).collect()),
            kinds,
        );
    }
    (Interference::ThreadPerf(thread_perf(draws, widest)), 1)
}

/// Some pools; each may be within one before it.
fn pools(draws: &mut Draws, machine: &Machine) -> Vec<Pool> {
    let cores = machine.cores.len() as u64;
    let count = draws.between(1, 4) as usize;
    let weights = draws.percent(40);
    let mut pool = |index: usize| {
        let period_ns = draws.magnitude(2 * MS, 100 * MS);
        let thousandths = draws.between(200, 200 + 1_200 * cores);
        Pool {
            name: format!("pool{index}"),
            allowance_ns: match draws.percent(90) {
                true => period_ns * thousandths / 1_000,
                false => 0,
            },
            period_ns,
            charge: match draws.percent(50) {
                true => Charge::Mt1,
                false => Charge::Raw,
            },
            weight: weights.then(|| draws.between(1, 1_000) as u32),
            parent: (index > 0 && draws.percent(40)).then(|| draws.below(index as u64) as usize),
        }
    };
    (0..count).map(&mut pool).collect()
}

fn tasks(draws: &mut Draws, machine: &Machine, kinds: usize) -> Vec<PlannedTask> {
    let lanes = machine.online.iter().filter(|&&online| online).count() as u64;
    let count = (lanes * draws.between(2, 30) / 10).clamp(1, 400) as usize;
    let weights = [
        draws.between(0, 3),
        draws.between(0, 3),
        draws.between(0, 4),
    ];
    let restless = draws.percent(50);
    let mut tasks = Vec::new();
    while tasks.len() < count {
        let class = class(draws, weights);
        let base = spec(draws, machine, class, kinds);
        let behaviour = behaviour(draws, class, restless);
        let Behaviour::Chain { demand, .. } = behaviour else {
            tasks.push(PlannedTask {
                spec: base,
                behaviour,
            });
            continue;
        };
        // A ring of tasks that wake each other.
        let (first, length) = (tasks.len(), draws.between(2, 6) as usize);
        for place in 0..length {
            let mut spec = base.clone();
            if draws.percent(20) {
                spec.class = self::class(draws, weights);
            }
            let next = first + (place + 1) % length;
            let behaviour = Behaviour::Chain { demand, next };
            tasks.push(PlannedTask { spec, behaviour });
        }
    }
    for (index, task) in tasks.iter_mut().enumerate() {
        task.spec.name = format!("{}{index}", task.spec.class.name());
    }
    tasks
}

fn class(draws: &mut Draws, weights: [u64; 3]) -> Class {
    let mut left = draws.below(weights.iter().sum());
    for class in Class::ALL {
        if left < weights[class as usize] {
            return class;
        }
        left -= weights[class as usize];
    }
    Class::Normal
}

fn spec(draws: &mut Draws, machine: &Machine, class: Class, kinds: usize) -> TaskSpec {
    TaskSpec {
        policy: *draws
            .one(&[Policy::Normal, Policy::Batch, Policy::Idle])
            .unwrap_or(&Policy::Normal),
        nice: match draws.percent(25) {
            true => draws.below(40) as i32 - 20,
            false => 0,
        },
        cpus: match draws.percent(25) {
            true => some_cpus(draws, machine),
            false => None,
        },
        kind: draws.below(kinds as u64) as usize,
        naps: class == Class::Batch && draws.percent(15),
        ..TaskSpec::new("", class)
    }
}

/// CPUs to be bound to: one, those of a core, any, or all.
pub(super) fn some_cpus(draws: &mut Draws, machine: &Machine) -> Option<Vec<u32>> {
    let core = draws.one(&machine.cores)?;
    let all = machine.cores.iter().flat_map(|core| &core.lanes);
    match draws.below(4) {
        0 => Some(vec![*draws.one(&core.lanes)?]),
        1 => Some(core.lanes.clone()),
        2 => {
            let share = draws.between(10, 90);
            Some(all.copied().filter(|_| draws.percent(share)).collect())
        }
        _ => None,
    }
}

fn behaviour(draws: &mut Draws, class: Class, restless: bool) -> Behaviour {
    let spins = if class == Class::Batch { 60 } else { 8 };
    if draws.percent(spins) {
        return Behaviour::Spin;
    }
    let least_ns = if restless { 10 * US } else { 300 * US };
    let demand = match draws.below(10) {
        0 => span(draws, 0, US),
        1 => span(draws, 10 * MS, 100 * MS),
        _ => span(draws, least_ns, 10 * MS),
    };
    match draws.below(10) {
        0..4 => Behaviour::Loop {
            demand,
            pause: span(draws, least_ns, 10 * MS),
        },
        4..5 => Behaviour::Loop {
            demand: span(draws, least_ns, 10 * MS),
            pause: Span {
                from_ns: 0,
                to_ns: 0,
            },
        },
        5..8 => Behaviour::Open {
            demand,
            gap: span(draws, 3 * least_ns, 20 * MS),
        },
        // Not of no work at all: a ring of such tasks would let no time pass.
        _ => Behaviour::Chain {
            demand: span(draws, least_ns, 10 * MS),
            next: 0,
        },
    }
}

fn span(draws: &mut Draws, from_ns: u64, to_ns: u64) -> Span {
    let (a, b) = (
        draws.magnitude(from_ns, to_ns),
        draws.magnitude(from_ns, to_ns),
    );
    Span {
        from_ns: if from_ns == 0 { 0 } else { a.min(b) },
        to_ns: a.max(b),
    }
}

/// As long as the expected number of steps allows.
fn length_ns(draws: &mut Draws, machine: &Machine, tasks: &[PlannedTask]) -> u64 {
    let lanes = machine.online.iter().filter(|&&online| online).count() as u64;
    let ticks_ns = TICKS * machine.costs.tick_ns / lanes.min(tasks.len() as u64).max(1);
    let mut rounds_per_s = 1;
    for task in tasks {
        let round_ns = match task.behaviour {
            Behaviour::Spin => continue,
            Behaviour::Loop { demand, pause } => demand.from_ns + pause.from_ns,
            Behaviour::Open { gap, .. } => gap.from_ns,
            Behaviour::Chain { demand, .. } => 2 * demand.from_ns,
        };
        rounds_per_s += 1000 * MS / (round_ns + US);
    }
    let rounds_ns = (ROUNDS * 1000 * MS) / rounds_per_s;
    draws
        .magnitude(50 * MS, 4000 * MS)
        .min(ticks_ns)
        .min(rounds_ns)
        .max(5 * MS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_machines_and_tasks_of_many_kinds() {
        let plans: Vec<Plan> = (0..300)
            .map(|seed| generate(&mut Draws::new(seed)).unwrap())
            .collect();
        let widest = |plan: &Plan| plan.machine.cores.iter().map(|c| c.lanes.len()).max();
        assert!(plans.iter().any(|plan| widest(plan) == Some(8)));
        assert!(plans.iter().any(|plan| widest(plan) == Some(1)));
        assert!(plans.iter().any(|plan| plan.machine.cores.len() > 64));
        let slow = |plan: &Plan| plan.machine.cores.iter().any(|core| core.capacity < 1024);
        assert!(plans.iter().any(slow));
        assert!(
            plans
                .iter()
                .any(|plan| plan.machine.online.contains(&false))
        );
        for class in Class::ALL {
            let has = |plan: &Plan| plan.tasks.iter().any(|task| task.spec.class == class);
            assert!(plans.iter().filter(|plan| has(plan)).count() > 100);
        }
    }
}
