//! The documentation and the example say what the table of settings says. `UPDATE_GOLDEN=1` rewrites them.
#![allow(clippy::unwrap_used)]

use sidelane_policy::settings::document;
use std::path::Path;

/// Holds what stands between two lines of a file against `expected`, or rewrites it.
fn check(file: &str, begin: &str, end: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let from = text.find(begin).unwrap() + begin.len();
    let to = from + text[from..].find(end).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = [&text[..from], expected, &text[to..]].concat();
        std::fs::write(&path, text).unwrap();
    } else {
        assert!(
            text[from..to] == *expected,
            "{file} differs from the table of settings; UPDATE_GOLDEN=1 cargo test -p sidelane-policy"
        );
    }
}

#[test]
fn the_manual_has_the_table_of_settings() {
    check(
        "docs/configuration.md",
        "<!-- made from crates/policy -->\n",
        "<!-- until here -->\n",
        &document::table(),
    );
}

#[test]
fn the_example_has_all_settings() {
    check(
        "examples/sidelane.toml",
        "# All settings with their defaults, made from crates/policy.\n",
        "# Until here.\n",
        &document::example(),
    );
}
