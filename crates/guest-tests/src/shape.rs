//! The machines, and which tests run on each.

/// A machine of the test bed.
pub struct Shape {
    /// Cores x lanes of each, with the kernel if it is not the newest.
    pub name: &'static str,
    pub kernel: &'static str,
    /// Arguments of `sidelane testbed run`.
    pub machine: &'static [&'static str],
    /// Those that depend on where this is built.
    pub here: fn() -> Vec<String>,
    /// The first one that a test's name begins with decides.
    tests: &'static [Choice],
}

/// Tests whose names begin so.
struct Choice {
    begins: &'static str,
    run: When,
}

/// When a shape runs a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only if ignored tests are asked for, as by one of the `make test-...`.
    IfAsked,
    Never,
}

const fn always(begins: &'static str) -> Choice {
    let run = When::Always;
    Choice { begins, run }
}

const fn if_asked(begins: &'static str) -> Choice {
    let run = When::IfAsked;
    Choice { begins, run }
}

const fn never(begins: &'static str) -> Choice {
    let run = When::Never;
    Choice { begins, run }
}

impl Shape {
    /// When it runs the test of this name.
    pub fn runs(&self, name: &str) -> When {
        let choice = self
            .tests
            .iter()
            .find(|choice| name.starts_with(choice.begins));
        choice.map_or(When::Never, |choice| choice.run)
    }
}

/// The one whose clock counts instructions.
pub const COUNTED: &str = "2x2-counted";

/// Every shape.
pub const ALL: &[Shape] = &[
    Shape {
        name: "2x2",
        kernel: "newest",
        machine: &["--cores", "2", "--lanes", "2"],
        here: Vec::new,
        // the others of these take other shapes, or minutes
        tests: &[
            if_asked("demos::"),
            never("cost::"),
            never("fleet::"),
            never("shapes::"),
            never("vms::"),
            always(""),
        ],
    },
    Shape {
        name: COUNTED,
        kernel: "newest",
        machine: &["--cores", "2", "--lanes", "2", "--counted-time"],
        here: Vec::new,
        tests: &[always("cost::")],
    },
    Shape {
        // what the verifiers of older kernels refuse shows at once; `make test-kernels` runs all. On the
        // test bed that kernel, 6.16, finds no SMT to switch off
        name: "2x2-oldest",
        kernel: "oldest",
        machine: &["--cores", "2", "--lanes", "2"],
        here: Vec::new,
        tests: &[
            always("lifecycle::attaches"),
            always("metrics::a_command_is_recorded"),
            always("metrics::looking_now_and_then"),
        ],
    },
    Shape {
        name: "2x2-kvm",
        kernel: "newest",
        // the emulator's virtualization may end the whole machine
        machine: &["--cores", "2", "--lanes", "2", "--module", "kvm-amd"],
        here: Vec::new,
        tests: &[if_asked("vms::")],
    },
    Shape {
        // steady and with the lanes of the demonstration, whose server it measures
        name: "2x2-fleet",
        kernel: "newest",
        machine: &[
            "--cores",
            "2",
            "--thread-perf",
            "1,0.63",
            "--steady",
            "0.9",
            "--memory",
            "4096",
        ],
        here: crate::tests::fleet::arguments,
        tests: &[if_asked("fleet::")],
    },
    Shape {
        name: "2x1",
        kernel: "newest",
        machine: &["--cores", "2", "--lanes", "1"],
        here: Vec::new,
        tests: &[if_asked("shapes::")],
    },
    Shape {
        name: "2x4",
        kernel: "newest",
        machine: &["--cores", "2", "--lanes", "4"],
        here: Vec::new,
        // that batch leaves all lanes of a core
        tests: &[
            always("protection::a_trace_shows"),
            if_asked("protection::"),
            if_asked("shapes::"),
        ],
    },
    Shape {
        name: "1x8",
        kernel: "newest",
        machine: &["--cores", "1", "--lanes", "8"],
        here: Vec::new,
        tests: &[if_asked("shapes::")],
    },
];
