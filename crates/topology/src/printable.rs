//! Names that come from elsewhere (tasks, cgroups, files) as text that a terminal or a log can show.

use std::fmt::Write;
use std::path::Path;

/// The text of `bytes`, with what could drive a terminal or break a line made visible: control
/// characters, the backslash, marks that turn the direction of text, and bytes that are no UTF-8
/// become escapes such as `\x1b`, `\\` and `\u{202e}`. Any name is allowed; different names stay different.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(&mut text, c));
        for byte in chunk.invalid() {
            hex(&mut text, *byte);
        }
    }
    text
}

/// Where a file is no JSON as expected, `FILE:LINE:COLUMN`, and what is wrong there. The column is 0 at the end of
/// an empty file.
pub fn json_mistake(file: &Path, error: &serde_json::Error) -> (String, String) {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = text.strip_suffix(&format!(" at line {line} column {column}"));
    let place = format!("{}:{line}:{column}", file.display());
    (place, what.unwrap_or(&text).to_owned())
}

fn push(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        c if c.is_ascii_control() => hex(text, c as u8),
        c if c.is_control() || turns(c) => text.extend(c.escape_unicode()),
        c => text.push(c),
    }
}

fn hex(text: &mut String, byte: u8) {
    // a string takes whatever is written to it
    let _ = write!(text, "\\x{byte:02x}");
}

/// Line and paragraph separators, and the marks of bidirectional text (Unicode, UAX 9).
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_stay_and_others_are_escaped() {
        for (bytes, text) in [
            (&b"kworker/3:1-ev"[..], "kworker/3:1-ev"),
            ("größe 大".as_bytes(), "größe 大"),
            (b"x\x1b[2J\x1b]0;t\x07", r"x\x1b[2J\x1b]0;t\x07"),
            (b"a\nb\tc\x7f\0", r"a\x0ab\x09c\x7f\x00"),
            (b"a\\x1b", r"a\\x1b"),
            (b"\xff\xc3(\xe2\x82", r"\xff\xc3(\xe2\x82"),
            ("\u{9b}31m\u{202e}".as_bytes(), r"\u{9b}31m\u{202e}"),
        ] {
            assert_eq!(printable(bytes), text);
        }
    }

    /// Names of few different bytes, some of which look like an escape of others.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop::sample::select(b"\\x1b\x1b\xff\xc2\x9b".to_vec()),
            0..6,
        )
    }

    proptest! {
        #[test]
        fn no_name_drives_a_terminal(name in prop::collection::vec(any::<u8>(), 0..20)) {
            let text = printable(&name);
            prop_assert!(!text.chars().any(char::is_control), "{text:?}");
        }

        #[test]
        fn no_two_names_look_alike(
            one in name(),
            other in name(),
        ) {
            prop_assert_eq!(printable(&one) == printable(&other), one == other);
        }
    }
}
