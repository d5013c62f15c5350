//! The text of a configuration, and what messages call the places in it.

use std::ops::Range;

/// A configuration as it is written.
pub(crate) struct Source<'a> {
    /// What messages call it: its path.
    pub name: &'a str,
    /// All of it.
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// `NAME:LINE:COLUMN` of what begins at this byte.
    pub fn at(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        format!("{}:{line}:{column}", self.name)
    }

    /// What stands there.
    pub fn raw(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    /// A mistake in TOML.
    pub fn mistake(&self, error: &toml::de::Error) -> String {
        let at = error
            .span()
            .map_or(self.name.to_owned(), |span| self.at(span.start));
        let what = error.message().trim_end();
        let hint = if what.contains("escape") {
            "; in single quotes a backslash stands for itself"
        } else {
            ""
        };
        format!("{at}: {what}{hint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let source = Source {
            name: "a.toml",
            text: "x\né = 1\n",
        };
        assert_eq!(source.at(0), "a.toml:1:1");
        assert_eq!(source.at(5), "a.toml:2:3");
        assert_eq!(source.raw(2..4), "é");
    }
}
