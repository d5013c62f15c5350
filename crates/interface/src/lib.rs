//! What programs and people hold on to: the frame of JSON documents, the manual pages, and what is said beside.

pub mod man;

/// Tells on standard error, as `eprintln!`. That it goes nowhere is no reason to end: the terminal is closed, the reader of a pipe
/// has ended, the disk is full.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = ::std::writeln!(::std::io::stderr(), $($text)*);
    }};
}

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The JSON Schema of all documents: each has an entry in `$defs`, by its [`Kind::name`].
pub const SCHEMA: &str = include_str!("../../../packaging/schema/sidelane.json");

/// Makes [`Kind`]: each kind, its name and its version.
macro_rules! kinds {
    ($($(#[$of:meta])* $kind:ident = $name:literal / $version:literal,)*) => {
        /// What a JSON document is about. The version changes when a key goes or means something else; keys
        /// may be added without.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$of])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The entry of [`SCHEMA`] that describes it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            /// Name and version, as documents have them in `schema`.
            pub const fn schema(self) -> &'static str {
                match self {
                    $(Kind::$kind => concat!("sidelane.", $name, "/", $version),)*
                }
            }
        }
    };
}

kinds! {
    /// Of `sidelane advise`.
    Advise = "advise" / 1,
    /// Of `sidelane advise SERVICE`.
    AdviseService = "advise-service" / 1,
    /// Of `sidelane calibrate`.
    Calibrate = "calibrate" / 1,
    /// Of `sidelane run --check`.
    Check = "check" / 1,
    /// A line of `sidelane control`.
    Control = "control" / 1,
    /// Of `sidelane demo`.
    Demo = "demo" / 1,
    /// Of `sidelane demo io`.
    DemoIo = "demo-io" / 1,
    /// Of `sidelane demo lanes`.
    DemoLanes = "demo-lanes" / 1,
    /// Of `sidelane demo levels`.
    DemoLevels = "demo-levels" / 1,
    /// Of `sidelane demo objective`.
    DemoObjective = "demo-objective" / 1,
    /// Of `sidelane demo options`.
    DemoOptions = "demo-options" / 1,
    /// Of `sidelane demo pools`.
    DemoPools = "demo-pools" / 1,
    /// Of `sidelane doctor`.
    Doctor = "doctor" / 1,
    /// Of `sidelane reproduce` without a name.
    Experiments = "experiments" / 1,
    /// Of `sidelane model`.
    Model = "model" / 1,
    /// Of `sidelane model --sweep`.
    ModelSweep = "model-sweep" / 1,
    /// Of `sidelane node --once`.
    Node = "node" / 1,
    /// The file that `sidelane node` keeps.
    NodeState = "node-state" / 1,
    /// Of `sidelane report`.
    Report = "report" / 1,
    /// Of `sidelane report` with two recordings.
    ReportComparison = "report-comparison" / 1,
    /// Of `sidelane reproduce`.
    Reproduce = "reproduce" / 1,
    /// Of `sidelane sim`.
    Sim = "sim" / 1,
    /// A line of `sidelane sim` of a scenario with sweeps.
    SimPoint = "sim-point" / 1,
    /// Of `sidelane sim --swarm`.
    SimSwarm = "sim-swarm" / 1,
    /// A line of `sidelane stat`.
    Stat = "stat" / 1,
    /// Of `sidelane status`.
    Status = "status" / 1,
    /// Of `sidelane tasks`.
    Tasks = "tasks" / 1,
    /// Of `sidelane testbed kernels`.
    TestbedKernels = "testbed-kernels" / 1,
    /// Of `sidelane testbed probe`.
    TestbedProbe = "testbed-probe" / 1,
    /// Of `sidelane topology`.
    Topology = "topology" / 1,
    /// Of `sidelane trial`.
    Trial = "trial" / 1,
    /// Of `sidelane tune`.
    Tune = "tune" / 1,
}

/// A result as a JSON object that says what it is: `schema`, then the keys of the result.
#[derive(Debug, Serialize)]
pub struct Document<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T: Serialize> Document<'a, T> {
    /// The frame of a result that is a struct or a map.
    pub fn new(kind: Kind, body: &'a T) -> Self {
        Document {
            schema: kind.schema(),
            body,
        }
    }

    /// The text over several lines, with its end.
    ///
    /// # Errors
    /// What JSON cannot hold, or a result that is no object.
    pub fn pretty(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// The text on one line, with its end.
    ///
    /// # Errors
    /// As [`Document::pretty`].
    pub fn line(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

/// A command without what is hidden, for shells to complete: they would show that as well.
pub fn visible(command: &clap::Command) -> clap::Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let below = command.get_subcommands().filter(|it| !it.is_hide_set());
    let about = command.get_about().cloned().unwrap_or_default();
    // a command keeps names that live as long as the program
    let name: &'static str = command.get_name().to_owned().leak();
    let shown = clap::Command::new(name)
        .about(about)
        .args(args.cloned())
        .subcommands(below.map(visible));
    match command.get_version() {
        Some(version) => shown.version(&*version.to_owned().leak()),
        None => shown,
    }
}

/// A result that is a list, as an object with it alone.
#[derive(Debug)]
pub struct Listed<'a, T>(
    /// The key.
    pub &'static str,
    /// The list.
    pub &'a [T],
);

impl<T: Serialize> Serialize for Listed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, self.1)?;
        map.end()
    }
}

/// Whether documents are as the published schema says: for tests.
#[cfg(feature = "check")]
pub mod check {
    #![allow(clippy::unwrap_used)] // a failure here is a test's
    use super::{Document, Kind, SCHEMA};
    use jsonschema::Validator;
    use serde::Serialize;
    use serde_json::Value;
    use std::sync::OnceLock;

    /// Refuses a document that the published schema does not describe to the last key.
    ///
    /// # Errors
    /// What it does not describe.
    pub fn document(document: &Value) -> Result<(), String> {
        // made once each: that takes as long as thousands of documents, beside what is measured
        static VALIDATORS: [OnceLock<Validator>; Kind::ALL.len()] =
            [const { OnceLock::new() }; Kind::ALL.len()];
        let name = document["schema"].as_str().unwrap_or_default();
        let known = Kind::ALL.iter().zip(&VALIDATORS);
        let found = known.into_iter().find(|(kind, _)| kind.schema() == name);
        let (kind, validator) = found.ok_or_else(|| format!("schema is {}", document["schema"]))?;
        let faults = validator
            .get_or_init(|| validator_of(*kind))
            .iter_errors(document);
        let faults = faults.map(|fault| format!("{name}{}: {fault}", fault.instance_path()));
        match faults.collect::<Vec<_>>() {
            none if none.is_empty() => Ok(()),
            faults => Err(faults.join("\n")),
        }
    }

    /// The same of a result that would be printed as that kind.
    ///
    /// # Errors
    /// As [`document`].
    pub fn result(kind: Kind, result: &impl Serialize) -> Result<(), String> {
        let printed = Document::new(kind, result).line();
        let printed = printed.and_then(|line| serde_json::from_str(&line));
        document(&printed.map_err(|e| e.to_string())?)
    }

    fn validator_of(kind: Kind) -> Validator {
        let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
        close(&mut schema);
        let entry = format!("#/$defs/{}", kind.name());
        let schema = serde_json::json!({"$ref": entry, "$defs": schema["$defs"]});
        jsonschema::validator_for(&schema).unwrap()
    }

    /// Keys may be added to what is published; that they are described as well is for tests to see.
    fn close(schema: &mut Value) {
        if let Some(object) = schema.as_object_mut()
            && object.contains_key("properties")
        {
            object
                .entry("additionalProperties")
                .or_insert(Value::Bool(false));
        }
        let below: Vec<&mut Value> = match schema {
            Value::Object(object) => object.values_mut().collect(),
            Value::Array(array) => array.iter_mut().collect(),
            _ => Vec::new(),
        };
        below.into_iter().for_each(close);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn documents_say_what_they_are_first() {
        let line = Document::new(Kind::Advise, &Listed("advice", &[1, 2])).line();
        assert_eq!(
            line.unwrap(),
            "{\"schema\":\"sidelane.advise/1\",\"advice\":[1,2]}\n"
        );
        assert!(Document::new(Kind::Advise, &[1, 2]).line().is_err());
    }

    #[test]
    fn each_kind_has_its_entry_in_the_schema_and_no_other_has() {
        let schema: serde_json::Value = serde_json::from_str(SCHEMA).unwrap();
        let defs = schema["$defs"].as_object().unwrap();
        let versioned = |name: &&String| !defs[*name]["properties"]["schema"].is_null();
        let described: BTreeSet<&str> = defs.keys().filter(versioned).map(String::as_str).collect();
        let kinds: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(described, kinds);
        for kind in Kind::ALL {
            let of = &defs[kind.name()]["properties"]["schema"]["const"];
            assert_eq!(of, kind.schema());
        }
    }
}
