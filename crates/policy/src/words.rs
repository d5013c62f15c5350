//! Enumerations that are written as words.

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
