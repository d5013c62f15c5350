//! The kernel's SMT control: what `/sys/devices/system/cpu/smt/` says.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The state of SMT control. Both parts are absent where the kernel has no such control: before
/// 4.19, and in machines built by hand unless set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Smt {
    /// `smt/control`: what may be switched.
    pub control: Option<SmtControl>,
    /// `smt/active`: whether some core has more than one lane online.
    pub active: Option<bool>,
}

/// What `smt/control` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtControl {
    /// `on`: all lanes may be online.
    On,
    /// `off`: one lane a core; may be switched on.
    Off,
    /// `forceoff`: one lane a core, until the next boot (kernel parameter `nosmt=force`).
    ForceOff,
    /// `notsupported`: the processor has no SMT.
    NotSupported,
    /// `notimplemented`: the kernel cannot switch SMT on this architecture.
    NotImplemented,
    /// A number: that many lanes of each core may be online, of more (POWER, kernel 6.6 and later).
    Lanes(u32),
}

/// The text is not one of those that `smt/control` may hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is no SMT control state; expected on, off, forceoff, notsupported, notimplemented \
     or a number of lanes"
)]
pub struct SmtControlError(String);

impl FromStr for SmtControl {
    type Err = SmtControlError;

    fn from_str(text: &str) -> Result<Self, SmtControlError> {
        let text = text.trim();
        Ok(match text {
            "on" => SmtControl::On,
            "off" => SmtControl::Off,
            "forceoff" => SmtControl::ForceOff,
            "notsupported" => SmtControl::NotSupported,
            "notimplemented" => SmtControl::NotImplemented,
            number => match number.parse() {
                Ok(lanes) if lanes > 0 => SmtControl::Lanes(lanes),
                _ => return Err(SmtControlError(text.to_owned())),
            },
        })
    }
}

impl fmt::Display for SmtControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SmtControl::On => "on",
            SmtControl::Off => "off",
            SmtControl::ForceOff => "forceoff",
            SmtControl::NotSupported => "notsupported",
            SmtControl::NotImplemented => "notimplemented",
            SmtControl::Lanes(lanes) => return write!(f, "{lanes}"),
        })
    }
}

impl Serialize for SmtControl {
    /// Serialises as the kernel's own text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_and_printed() {
        for text in [
            "on",
            "off",
            "forceoff",
            "notsupported",
            "notimplemented",
            "4",
        ] {
            assert_eq!(text.parse::<SmtControl>().unwrap().to_string(), text);
        }
        assert_eq!("2\n".parse(), Ok(SmtControl::Lanes(2)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "0", "ON", "maybe", "-1"] {
            let error = text.parse::<SmtControl>().unwrap_err();
            assert!(error.to_string().contains("expected on, off"), "{error}");
        }
    }
}
