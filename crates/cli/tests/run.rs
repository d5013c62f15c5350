//! `sidelane run --check` as a program: reads a configuration and attaches nothing.

use std::process::{Command, Output};

fn check(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    command.args(["run", "--check"]).args(args);
    command.output().expect("the program starts")
}

#[test]
fn the_example_passes() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sidelane.toml");
    let output = check(&["--config", example, "--critical", "exe:/no/such/server"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains("exe:/no/such/server") && first.ends_with("no such file now"));
    assert!(text.contains("unit:nginx.service"), "{text}");
}

#[test]
fn the_result_is_to_be_had_as_json() {
    let output = check(&["--batch", "user:0", "--format", "json"]);
    let check = super::document(&output);
    assert_eq!(check["rules"][0]["class"], "batch");
    assert_eq!(check["rules"][0]["finds"]["user"], 0);
}

/// What is said of a file that cannot be used, without the path of its folder.
fn said_of(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, text).unwrap();
    let output = check(&["--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    said.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn each_mistake_in_a_file_names_its_place_in_the_same_form() {
    let rule = |text: &str| said_of(&format!("[[rule]]\nclass = \"batch\"\nmatch = {text}\n"));
    let pool = |text: &str| said_of(&format!("[[pool]]\ncgroup = {text}\nshare = 1\n"));
    for (said, expected) in [
        (
            said_of("[scheduler]\nslize_ms = 3\n"),
            "bad.toml:2:1: unknown key \"slize_ms\"",
        ),
        (
            rule("'unit:x y.service'"),
            "bad.toml:3:9: rule 'unit:x y.service': no unit's name",
        ),
        (
            rule("'user:no-such'"),
            "bad.toml:3:9: rule 'user:no-such': there is no user",
        ),
        (
            rule("'exe:/usr'"),
            "bad.toml:3:9: rule 'exe:/usr': a directory",
        ),
        (
            rule("\"unit:a\\x2db.swap\""),
            "bad.toml:3:9: rule 'unit:a-b.swap': between double",
        ),
        (
            rule("\"unit:a\\-b.swap\""),
            "in single quotes a backslash stands for itself",
        ),
        (
            pool("'/a/*'"),
            "bad.toml:2:10: [[pool]] \"/a/*\": a pool is one cgroup",
        ),
        (
            pool("\"/a\\x2db.slice\""),
            "bad.toml:2:10: [[pool]] \"/a-b.slice\": between",
        ),
        (
            pool("'/a'"),
            "bad.toml:2:10: [[pool]] \"/a\": charge = \"mt1\" needs thread_perf",
        ),
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn each_mistake_in_a_flag_names_the_flag() {
    for rule in ["user:no-such", "unit:x", "exe:/usr"] {
        let output = check(&["--batch", rule]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(said.contains("--batch") && said.contains(rule), "{said}");
    }
}

#[test]
fn a_pool_on_a_container_is_found_or_not() {
    let pod = "kubepods-burstable-pod00000000_0000_0000_0000_000000000000.slice";
    let container = format!("/kubepods.slice/{pod}/cri-containerd-{:064}.scope", 0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pool.toml");
    let text =
        format!("[[pool]]\ncgroup = \"{container}\"\ncapacity_cores = 1\ncharge = \"raw\"\n");
    std::fs::write(&file, text).unwrap();
    let output = check(&["--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains(&format!("pool of 1 lanes  {container}  no such cgroup now")),
        "{said}"
    );
}
