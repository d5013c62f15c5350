//! How work spreads over cores: settings of `bpf/polarize.bpf.h`.

use serde::{Deserialize, Serialize};

/// Which cores normal and batch work uses, `polarization` in the `[scheduler]` table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Polarization {
    /// All of them.
    #[default]
    Horizontal,
    /// As few as it needs; the others sleep.
    Vertical,
}

impl Polarization {
    /// The word used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Polarization::Horizontal => "horizontal",
            Polarization::Vertical => "vertical",
        }
    }

    /// As the BPF side has it.
    pub(crate) fn native(self) -> u32 {
        u32::from(self == Polarization::Vertical)
    }

    pub(crate) fn of_native(vertical: u32) -> Polarization {
        match vertical {
            0 => Polarization::Horizontal,
            _ => Polarization::Vertical,
        }
    }
}

impl std::str::FromStr for Polarization {
    type Err = String;

    fn from_str(text: &str) -> Result<Polarization, String> {
        [Polarization::Horizontal, Polarization::Vertical]
            .into_iter()
            .find(|polarization| polarization.name() == text)
            .ok_or_else(|| "expected horizontal or vertical".to_owned())
    }
}
