//! What is compared: configurations of the machine, and critical workloads.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the machine is set up while the critical work is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Configuration {
    /// No batch, the kernel's default scheduler: what the others are compared with.
    Alone,
    /// Batch as `SCHED_IDLE`, the kernel's default scheduler.
    Default,
    /// As `default`, with all lanes but the first of each core switched off.
    SmtOff,
    /// Batch beside the critical work, scheduled by Sidelane.
    Sidelane,
}

impl Configuration {
    /// All of them, in the order of the report.
    pub const ALL: [Configuration; 4] = [
        Configuration::Alone,
        Configuration::Default,
        Configuration::SmtOff,
        Configuration::Sidelane,
    ];

    /// The name in flags, tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::Alone => "alone",
            Configuration::Default => "default",
            Configuration::SmtOff => "smt-off",
            Configuration::Sidelane => "sidelane",
        }
    }

    /// Whether batch runs.
    pub fn has_batch(self) -> bool {
        self != Configuration::Alone
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Configuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Configuration::ALL.into_iter().find(|c| c.name() == text).ok_or_else(|| {
            Error::BadPlan(format!(
                "no configuration is called {text:?}; there are alone, default, smt-off, sidelane"
            ))
        })
    }
}

/// A critical workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// A server whose requests are milliseconds of real computation.
    Compute,
    /// redis-server with short and longer commands.
    Redis,
}

impl Workload {
    /// Both.
    pub const ALL: [Workload; 2] = [Workload::Compute, Workload::Redis];

    /// The name in flags, tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Compute => "compute",
            Workload::Redis => "redis",
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Workload::ALL
            .into_iter()
            .find(|w| w.name() == text)
            .ok_or_else(|| {
                Error::BadPlan(format!(
                    "no workload is called {text:?}; there are compute, redis"
                ))
            })
    }
}
