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

#[test]
fn what_finds_nothing_is_refused_where_it_is_asked_for() {
    let strict = check(&["--batch", "unit:none.service", "--strict"]);
    assert_eq!(strict.status.code(), Some(5), "{strict:?}");
    let said = super::stderr(&strict);
    let expected = "error: --batch 1: rule 'unit:none.service': no such cgroup now\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(!strict.stdout.is_empty());
    let lax = check(&["--batch", "unit:none.service"]);
    assert_eq!(lax.status.code(), Some(0), "{lax:?}");
    let sure = check(&["--batch", "user:0", "--strict"]);
    let able = super::sidelane(&["doctor", "--format", "json"]);
    let able = super::document(&able);
    let failed = able["checks"].as_array().unwrap().iter();
    let failed: Vec<&str> = failed
        .filter(|check| check["verdict"] == "fail" && check["name"] != "privileges")
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    let code = if failed.is_empty() { 0 } else { 5 };
    assert_eq!(sure.status.code(), Some(code), "{sure:?}");
    let text = String::from_utf8_lossy(&sure.stdout);
    let last = text.lines().last().unwrap();
    assert_eq!(last.contains(&failed.join(", ")), code == 5, "{text}");
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
        assert!(
            said.starts_with("error: ") && said.lines().count() == 1,
            "{said}"
        );
    }
    let lines = [
        (
            "[scheduler]\nslice_ms = -1\n",
            "error: bad.toml:2:12: slice_ms: expected",
        ),
        (
            "[scheduler]\nslice_ms = \n",
            "error: bad.toml:2:12: not TOML",
        ),
        (
            "[scheduler]\nscope = \"batch\"\n",
            "error: bad.toml:2:9: scope = \"batch\" needs rules",
        ),
    ];
    for (text, expected) in lines {
        assert!(said_of(text).starts_with(expected), "{}", said_of(text));
    }
}

#[test]
fn mistakes_are_text_on_standard_error_in_json_mode_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let name = file.to_str().unwrap();
    for text in [
        "[scheduler]\nslice_ms = -1\n",
        "[scheduler]\nslize_ms = 3\n",
        "x",
    ] {
        std::fs::write(&file, text).unwrap();
        let output = check(&["--config", name, "--format", "json"]);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = super::stderr(&output);
        assert!(said.starts_with(&format!("error: {name}:")), "{said}");
        let sim = super::sidelane(&["sim", name, "--format", "json"]);
        assert_eq!(sim.status.code(), Some(4), "{sim:?}");
        assert!(
            sim.stdout.is_empty() && super::stderr(&sim).starts_with(&format!("error: {name}:"))
        );
    }
    let none = check(&["--config", "/no/such.toml"]);
    let said = super::stderr(&none);
    assert!(
        said.starts_with("error: /no/such.toml: cannot read it: No such file"),
        "{said}"
    );
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
}

#[test]
fn each_mistake_in_a_flag_names_the_flag() {
    for rule in ["user:no-such", "unit:x", "exe:/usr"] {
        let output = check(&["--batch", "user:0", "--batch", rule]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4));
        let place = format!("error: --batch 2: rule '{rule}': ");
        assert!(said.starts_with(&place), "{said}");
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
