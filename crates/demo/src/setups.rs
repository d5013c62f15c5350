//! What is compared: setups, each with a name, in the order of the report.

/// A type of setups: the name of each in tables, and `ALL` of them. In JSON they have their names in kebab case.
macro_rules! setups {
    ($(#[$about:meta])* pub enum $Setup:ident { $($(#[$doc:meta])* $Name:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum $Setup {
            $($(#[$doc])* $Name,)+
        }

        impl $Setup {
            /// All of them, in the order of the report.
            pub const ALL: &'static [$Setup] = &[$($Setup::$Name,)+];

            /// The name in tables.
            pub fn name(self) -> &'static str {
                match self {
                    $($Setup::$Name => $name,)+
                }
            }
        }

        impl std::fmt::Display for $Setup {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use setups;

use crate::error::{Error, Result};
use std::str::FromStr;

setups! {
    /// How the machine is set up while the critical work is measured.
    pub enum Configuration {
        /// No batch, the kernel's default scheduler: what the others are compared with.
        Alone = "alone",
        /// Batch as `SCHED_IDLE`, the kernel's default scheduler.
        Default = "default",
        /// As `default`, with all lanes but the first of each core switched off.
        SmtOff = "smt-off",
        /// Batch beside the critical work, scheduled by Sidelane.
        Sidelane = "sidelane",
        /// Batch scheduled by Sidelane alone, all else by the kernel's default scheduler.
        BatchOnly = "batch-only",
    }
}

setups! {
    /// A critical workload.
    pub enum Workload {
        /// A server whose requests are milliseconds of real computation.
        Compute = "compute",
        /// redis-server with short and longer commands.
        Redis = "redis",
    }
}

impl Configuration {
    /// Whether batch runs.
    pub fn has_batch(self) -> bool {
        self != Configuration::Alone
    }
}

impl FromStr for Configuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Configuration::ALL, "configuration", text)
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Workload::ALL, "workload", text)
    }
}

/// The one that is called so.
fn named<S: Copy + ToString>(all: &[S], kind: &str, text: &str) -> Result<S> {
    let found = all.iter().find(|one| one.to_string() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(S::to_string).collect();
        let names = names.join(", ");
        Error::BadPlan(format!("no {kind} is called {text:?}; there are {names}"))
    })
}
