//! What the swarm says of a run: the rules that can be broken, and which one was.

use std::fmt;

/// What can be violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The scenario could not be set up.
    Setup,
    /// The kernel would have ejected the scheduler.
    Kernel,
    /// A waiting task is in no queue, or in two, or its queue is not known to be one to look at.
    Lost,
    /// A task is on two lanes, or does what it cannot do where it is.
    Twice,
    /// Batch ran beside critical work for longer than it takes to leave.
    ClosedCore,
    /// A task waited for longer than the starvation bound allows.
    Starvation,
    /// A lane idled while a task waited that could have run there.
    IdleLane,
    /// More lanes of a core were busy than the SMT level allows.
    Level,
    /// A change of class did not take effect.
    ClassChange,
    /// A pool got more than its allowance, or held a task without need.
    Pool,
    /// A critical task moved where it gains nothing, too early, or to a core that is not free.
    Promotion,
    /// A normal task moved where it gains nothing, or to a core that does not idle.
    Spread,
    /// Critical work was passed over by younger.
    Age,
    /// Critical work waited for lower work that runs on a lane of its core.
    Precedence,
    /// Of two normal tasks of a lane one got more than its share.
    Shares,
    /// Times do not add up.
    Accounts,
    /// Work does not add up.
    Work,
    /// When nothing was added any more, the machine did not come to rest.
    Drain,
}

/// A violation.
#[derive(Debug, Clone)]
pub(super) struct Broken {
    pub rule: Rule,
    pub what: String,
}

pub(super) type Verdict = Result<(), Broken>;

impl Broken {
    pub fn because(rule: Rule, what: String) -> Verdict {
        Err(Broken { rule, what })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Setup => "setup",
            Rule::Kernel => "kernel",
            Rule::Lost => "lost task",
            Rule::Twice => "one place a task",
            Rule::ClosedCore => "closed core",
            Rule::Starvation => "starvation bound",
            Rule::IdleLane => "idle lane",
            Rule::Level => "SMT level",
            Rule::ClassChange => "class change",
            Rule::Pool => "pool",
            Rule::Promotion => "promotion",
            Rule::Spread => "spreading",
            Rule::Age => "age",
            Rule::Precedence => "precedence",
            Rule::Shares => "shares",
            Rule::Accounts => "accounts",
            Rule::Work => "work",
            Rule::Drain => "drain",
        })
    }
}
