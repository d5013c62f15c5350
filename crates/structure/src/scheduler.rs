//! The scheduler's C headers: which function stands where, and which file calls it.

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Headers of the scheduler, by their path below its folder: `io/retain.bpf.h`.
#[derive(Debug, Default)]
pub struct Headers {
    /// What each file calls, comments left out.
    calls: BTreeMap<String, BTreeSet<String>>,
    /// The file in which each function stands.
    functions: BTreeMap<String, String>,
}

impl Headers {
    /// Reads the sources (`*.bpf.h`, `*.bpf.c`) of `folder` and of the folders in it.
    ///
    /// # Errors
    /// A folder or a file that cannot be read.
    pub fn read(folder: &Path) -> Result<Headers, Error> {
        let mut headers = Headers::default();
        for path in sources(folder)? {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let text = fs::read_to_string(&path).map_err(|source| unreadable(&path, source))?;
            headers.add(&name.display().to_string(), &text);
        }
        Ok(headers)
    }

    fn add(&mut self, name: &str, text: &str) {
        let code = without_comments(text);
        let calls = code.split('(').filter_map(last_word);
        self.calls.insert(name.to_owned(), calls.collect());
        for function in functions(&code) {
            self.functions.insert(function, name.to_owned());
        }
    }

    /// Functions of other files that `file` calls, and where they stand.
    pub fn called(&self, file: &str) -> Vec<(&str, &str)> {
        let calls = self.calls.get(file).into_iter().flatten();
        let stands = calls.filter_map(|name| self.functions.get_key_value(name));
        stands
            .filter(|(_, place)| *place != file)
            .map(|(function, place)| (function.as_str(), place.as_str()))
            .collect()
    }

    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.calls.keys().map(String::as_str)
    }
}

/// The folder of a file; that of the scheduler itself is "".
pub fn folder_of(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    let path = path.display().to_string();
    Error::Read { path, source }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|source| unreadable(folder, source))?;
    for entry in entries {
        let path = entry.map_err(|source| unreadable(folder, source))?.path();
        let name = path.to_string_lossy();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if name.ends_with(".bpf.h") || name.ends_with(".bpf.c") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The name at the end of `text`, if it ends with one.
fn last_word(text: &str) -> Option<String> {
    let word = text
        .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (!word.is_empty()).then(|| word.to_owned())
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    code + rest
}

/// Names of the functions that are defined: those begin at the margin, by what says how they are linked.
fn functions(code: &str) -> Vec<String> {
    let begins = |line: &&str| line.starts_with("static ") || line.starts_with("VERIFIED_ONCE ");
    let name = |line: &str| last_word(line.split_once('(')?.0);
    code.lines().filter(begins).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers() -> Headers {
        let mut headers = Headers::default();
        headers.add(
            "core/a.bpf.h",
            "static __always_inline u32 *one(u32 x)\n{\n\treturn two();\n}\n",
        );
        headers.add(
            "io/b.bpf.h",
            "/* one() */\nVERIFIED_ONCE bool two(void)\n{\n\treturn 1;\n}\n",
        );
        headers
    }

    #[test]
    fn a_function_is_found_where_it_stands_and_where_it_is_called() {
        assert_eq!(headers().called("core/a.bpf.h"), [("two", "io/b.bpf.h")]);
    }

    #[test]
    fn a_comment_calls_nothing() {
        assert!(headers().called("io/b.bpf.h").is_empty());
    }

    #[test]
    fn a_file_of_the_scheduler_s_own_folder_has_none() {
        assert_eq!(
            (folder_of("io/b.bpf.h"), folder_of("main.bpf.c")),
            ("io", "")
        );
    }
}
