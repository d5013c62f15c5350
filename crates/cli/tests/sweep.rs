//! `sidelane sim` of scenarios with sweeps, as it is typed.

use super::{sidelane, stderr};
use std::fs;
use std::path::{Path, PathBuf};

const SCENARIO: &str = r#"
[machine]
cores = 1
lanes = 2
thread_perf = [1, 0.6]
[run]
replications = 2
seconds = 0.05
warmup_seconds = 0
[[workload]]
name = "server"
class = "critical"
open = { load = 0.3 }
demand_ms = { exponential = 1 }
[[workload]]
name = "batch"
class = "batch"
batch = { tasks = 2 }
[[sweep]]
name = "load"
key = "workload.server.open.load"
values = { from = 0.1, to = 0.3, step = 0.1 }
[[sweep]]
name = "cores"
key = "machine.cores"
values = [1, 2]
with = [{ key = "workload.batch.batch.tasks", values = [2, 4] }]
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.write("sweep.toml", SCENARIO);
        folder
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs `sidelane sim` on the scenario.
    fn sim(&self, args: &[&str]) -> Vec<u8> {
        let path = self.0.path().join("sweep.toml");
        let output = sidelane(&[&["sim", path.to_str().unwrap()], args].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    }

    /// The files of so many shards.
    fn shards(&self, of: u64) -> Vec<PathBuf> {
        let shard = |index| {
            let name = format!("{index}/{of}");
            let text = self.sim(&["--format", "json", "--threads", "1", "--shard", &name]);
            self.write(&format!("shard-{index}-{of}"), text)
        };
        (0..of).rev().map(shard).collect()
    }
}

fn merged(files: &[PathBuf], format: &str) -> std::process::Output {
    let files = files.iter().map(|path| path.to_str().unwrap());
    let args: Vec<&str> = ["sim", "--format", format, "--merge"]
        .into_iter()
        .chain(files)
        .collect();
    sidelane(&args)
}

#[test]
fn shards_put_together_are_the_whole_byte_for_byte() {
    let folder = Folder::new();
    for of in [1, 2, 4, 6, 7] {
        let shards = folder.shards(of);
        for format in ["json", "csv", "text"] {
            let together = merged(&shards, format);
            assert!(together.status.success(), "{}", stderr(&together));
            let whole = folder.sim(&["--format", format]);
            assert_eq!(String::from_utf8(together.stdout), String::from_utf8(whole));
        }
    }
    // twice the same does no harm
    let shards = [folder.shards(2), folder.shards(1)].concat();
    assert!(merged(&shards, "csv").status.success());
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = Folder::new();
    let refused = |files: &[PathBuf], part: &str| {
        let output = merged(files, "csv");
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(
            output.stdout.is_empty() && stderr(&output).contains(part),
            "{output:?}"
        );
    };
    let shards = folder.shards(4); // the last first
    refused(&shards[1..], "points 3 are missing");
    refused(&shards[..1], "points 0-2, 4-5 are missing");
    let other = folder.write("other", folder.sim(&["--format", "json", "--seed", "2"]));
    refused(&[shards[0].clone(), other], "belongs to another scenario");
    refused(
        &[folder.write("none", "{}\n")],
        "none:1: no point of a sweep",
    );
    let changed = fs::read_to_string(&shards[0])
        .unwrap()
        .replacen("0.6", "0.7", 1);
    let text = changed.replacen("\"mean\":", "\"mean\": ", 1);
    refused(
        &[shards[0].clone(), folder.write("changed", text)],
        "something else of point 3",
    );
    refused(
        &[Path::new("none-such").to_owned()],
        "none-such: cannot read it",
    );
    refused(&[folder.write("empty", "")], "no point in these files");
    let text = folder.write("text", [0xff, 0xfe]);
    refused(&[text], "text: it is not UTF-8 text; save it as that");
    let listed = folder.write("listed", folder.sim(&["--points", "--format", "json"]));
    refused(&[listed], "was listed, not simulated");
}

#[test]
fn points_are_listed_and_one_is_a_scenario_of_its_own() {
    let folder = Folder::new();
    let listed = String::from_utf8(folder.sim(&["--points"])).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[0], "0: cores 1, load 0.1");
    assert_eq!(lines[5], "5: cores 2, load 0.3");
    let set = [
        "--set",
        "machine.cores=2",
        "--set",
        "workload.batch.batch.tasks=4",
        "--set",
        "workload.server.open.load=0.3",
        "--point",
        "0",
    ];
    let all = folder.sim(&["--format", "csv"]);
    let all = String::from_utf8(all).unwrap();
    let of_point = |n: &str| {
        let lines = all.lines().filter_map(|line| line.strip_prefix(n));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let one = String::from_utf8(folder.sim(&["--point", "5", "--format", "csv"])).unwrap();
    assert_eq!(
        one.lines().skip(1).collect::<Vec<_>>(),
        of_point("5,2,0.3,")
    );
    // the sweeps set their keys in any case
    let first = String::from_utf8(folder.sim(&[&set[..], &["--format", "csv"]].concat())).unwrap();
    assert_eq!(
        first.lines().skip(1).collect::<Vec<_>>(),
        of_point("0,1,0.1,")
    );
    let picture = folder.0.path().join("5.svg");
    folder.sim(&["--point", "5", "--svg", picture.to_str().unwrap()]);
    assert!(fs::read_to_string(picture).unwrap().starts_with("<svg"));
}

#[test]
fn each_line_is_as_the_schema_says() {
    for line in String::from_utf8(Folder::new().sim(&["--format", "json"]))
        .unwrap()
        .lines()
    {
        sidelane_interface::check::document(&serde_json::from_str(line).unwrap()).unwrap();
    }
}

#[test]
fn mistakes_say_where_they_are() {
    let folder = Folder::new();
    let wrong = |from: &str, to: &str, args: &[&str], part: &str| {
        assert!(SCENARIO.contains(from));
        let path = folder.write("wrong.toml", SCENARIO.replace(from, to));
        let output = sidelane(&[&["sim", path.to_str().unwrap()], args].concat());
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(
            stderr(&output).contains(part),
            "{part}: {}",
            stderr(&output)
        );
    };
    wrong(
        "workload.server.open",
        "workload.sever.open",
        &[],
        "wrong.toml:19:1: load 0.1: no [[workload]] is called \"sever\"",
    );
    wrong(
        "\"machine.cores\"",
        "\"machine.cors\"",
        &[],
        "did you mean \"cores\"",
    );
    wrong("[1, 2]", "[]", &[], "wrong.toml:26:10: values: give one");
    wrong("[1, 2]", "[1, 0]", &[], "wrong.toml:23:1: cores 0:");
    wrong("[2, 4]", "[2]", &[], "values: 1 of them for 2 of the sweep");
    wrong("to = 0.3", "to = 0", &[], "no less than `from`");
    wrong("step = 0.1", "step = 0", &[], "step");
    wrong("step = 0.1", "step = 1e-9", &[], "values");
    wrong(
        "name = \"cores\"",
        "name = \"load\"",
        &[],
        "two are called \"load\"",
    );
    wrong(
        "1",
        "1",
        &["--set", "machine.cors=2"],
        "--set machine.cors: unknown key \"cors\"",
    );
    wrong("1", "1", &["--set", "run.seconds=0"], "--set run.seconds");
    wrong(
        "1",
        "1",
        &["--set", "workload.x.class=batch"],
        "no [[workload]] is called \"x\"",
    );
    wrong("1", "1", &["--seconds", "0"], "--seconds: ");
    wrong(
        "1",
        "1",
        &["--point", "6"],
        "--point: there are points 0 to 5",
    );
    wrong("1", "1", &["--svg", "x.svg"], "name one with --point");
    let plain = SCENARIO.split("[[sweep]]").next().unwrap();
    wrong(
        SCENARIO,
        plain,
        &["--shard", "0/2"],
        "--shard: the scenario has no [[sweep]]",
    );
    let usage = |args: &[&str]| assert_eq!(sidelane(args).status.code(), Some(2), "{args:?}");
    usage(&["sim", "x.toml", "--shard", "2/2"]);
    usage(&["sim", "x.toml", "--set", "machine.cores"]);
    usage(&["sim", "x.toml", "--merge", "y"]);
    for other in [["--seconds", "1"], ["--record", "r"], ["--lanes", "4"]] {
        usage(&[&["sim", "--merge", "y"][..], &other].concat());
    }
}
