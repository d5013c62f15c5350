//! What Sidelane decides, in one vocabulary: the classes of tasks, the scheduler's settings, and how both are
//! written in files.
//!
//! The scheduler's configuration (`sidelane run`) and scenarios (`sidelane sim`) read settings by the same
//! table, [`settings::rows`]: the same keys, ranges and messages. [`intf`] has what the scheduler's source in C
//! shares with Rust. This crate reads no file and no clock.

pub mod file;
pub mod intf;
mod objective;
pub mod pool;
pub mod settings;

pub use objective::Objective;
pub use pool::Charge;
pub use settings::{
    Borrow, Budget, Dispatching, JobOrder, Pairing, Polarization, Retention, Scope, Settings,
    StealBarriers, Symbiosis, UseCounters,
};

/// Makes an enumeration of words: `ALL`, the words, the word of each, and how it is read and written.
macro_rules! words {
    (
        $(#[$of_all:meta])*
        pub enum $name:ident {
            $($(#[$of_one:meta])* $variant:ident = $word:literal,)*
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$of_one])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [$name; [$($word),*].len()] = [$($name::$variant),*];
            /// Their words, in the same order.
            pub const WORDS: [&'static str; $name::ALL.len()] = [$($word),*];

            /// The word for it.
            pub fn name(self) -> &'static str {
                $name::WORDS[self as usize]
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> std::result::Result<$name, String> {
                let known = $name::ALL.into_iter().find(|one| one.name() == text);
                known.ok_or_else(|| {
                    format!("expected {}", $crate::file::alternatives(&$name::WORDS))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(
                &self,
                to: S,
            ) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    };
}

pub(crate) use words;

/// Most lanes that a core may have.
pub const LANES_MAX: usize = intf::limits_MAX_LANES_PER_CORE as usize;

words! {
    /// The task classes, highest first, as the scheduler numbers them.
    pub enum Class {
        /// Somebody waits for it.
        Critical = "critical",
        /// Everything that no rule names.
        Normal = "normal",
        /// Worth doing only with what is left over.
        Batch = "batch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_scheduler() {
        let numbers = Class::ALL.map(|class| class as u32);
        let (critical, normal, batch) = (
            intf::task_class_CLASS_CRITICAL,
            intf::task_class_CLASS_NORMAL,
            intf::task_class_CLASS_BATCH,
        );
        assert_eq!(numbers, [critical, normal, batch]);
        assert_eq!(Class::ALL.len() as u32, intf::task_class_NR_CLASSES);
    }
}
