//! TOML values that know where they stand, so that every mistake can be shown.

use super::{Limits, Mistake, Place, Result};
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// How much of a wrong value a message quotes, characters.
const QUOTED_MAX: usize = 40;

/// From this similarity (Jaro-Winkler) on, another key is worth suggesting.
const SIMILAR: f64 = 0.8;

/// The text of a file, and its name.
#[derive(Debug)]
pub struct Source<'a> {
    /// As messages call it.
    pub file: &'a str,
    /// All of it.
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// The file as a table.
    ///
    /// # Errors
    /// What is no TOML.
    pub fn table(&self) -> Result<DeTable<'a>> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message();
            let remedy = match what.contains("escape") {
                true => "; in single quotes a backslash stands for itself",
                false => "",
            };
            self.error(at, format!("not TOML: {what}{remedy}"))
        })?;
        Ok(table.into_inner())
    }

    /// The place at a byte offset.
    fn place(&self, at: usize) -> Place {
        let before = self.text.get(..at).unwrap_or(self.text);
        Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|&c| c != '\n').count() + 1,
        }
    }

    /// A mistake at a byte offset.
    pub fn error(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake {
            place: self.place(at),
            message: message.into(),
        }
    }
}

/// A table that a file may hold: what it is called, and its keys.
#[derive(Debug)]
pub struct Shape {
    /// As messages call it.
    pub title: &'static str,
    /// How one looks.
    pub form: &'static str,
    /// The keys it may have.
    pub keys: &'static [&'static str],
    /// Keys that people may look for here, and where they are.
    pub elsewhere: &'static [(&'static str, &'static str)],
}

/// The keys of a table that has its own and some of a kind that other tables have, too. `N` is how many these are
/// together; another number does not compile where the result is a constant.
pub const fn with_keys<const A: usize, const B: usize, const N: usize>(
    own: [&'static str; A],
    shared: [&'static str; B],
) -> [&'static str; N] {
    assert!(N == A + B);
    let mut keys = [""; N];
    let mut i = 0;
    while i < N {
        keys[i] = if i < A { own[i] } else { shared[i - A] };
        i += 1;
    }
    keys
}

/// A table of a file; all of its keys are known.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    source: &'a Source<'a>,
    shape: &'static Shape,
    table: &'a DeTable<'a>,
    at: usize,
}

impl<'a> Section<'a> {
    /// The whole file.
    ///
    /// # Errors
    /// The first key that is not known.
    pub fn root(
        source: &'a Source<'a>,
        shape: &'static Shape,
        table: &'a DeTable<'a>,
    ) -> Result<Self> {
        Section {
            source,
            shape,
            table,
            at: 0,
        }
        .checked()
    }

    fn checked(self) -> Result<Self> {
        let unknown = |key: &&Spanned<_>| {
            let key: &std::borrow::Cow<str> = key.get_ref();
            !self.shape.keys.contains(&key.as_ref())
        };
        let first = self
            .table
            .keys()
            .filter(unknown)
            .min_by_key(|key| key.span().start);
        match first {
            Some(key) => Err(self.source.error(
                key.span().start,
                format!(
                    "unknown key {:?} in {}; {}",
                    key.get_ref(),
                    self.shape.title,
                    self.remedy(key.get_ref())
                ),
            )),
            None => Ok(self),
        }
    }

    /// What an unknown key may have been meant to be.
    fn remedy(&self, key: &str) -> String {
        let here = self.shape.keys.iter().map(|known| (*known, None));
        let elsewhere = self.shape.elsewhere.iter();
        let elsewhere = elsewhere.map(|(known, place)| (*known, Some(*place)));
        let mut best = (SIMILAR, None);
        for (known, place) in here.chain(elsewhere) {
            let similarity = strsim::jaro_winkler(key, known);
            if similarity > best.0 {
                best = (similarity, Some((known, place)));
            }
        }
        match best.1 {
            Some((known, None)) => format!("did you mean {known:?}?"),
            Some((known, Some(place))) if known == key => format!("it belongs in {place}"),
            Some((known, Some(place))) => format!("did you mean {known:?} in {place}?"),
            None => format!("its keys are {}", self.shape.keys.join(", ")),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        let (key, node) = self.table.get_key_value(key)?;
        Some(Value {
            source: self.source,
            key: key.get_ref(),
            node,
        })
    }

    /// The value of a key that has to be there; `what` it is when it is not.
    ///
    /// # Errors
    /// It is not there.
    pub fn need(&self, key: &str, what: &str) -> Result<Value<'a>> {
        self.get(key)
            .ok_or_else(|| self.error(format!("{} lacks {key}: {what}", self.shape.title)))
    }

    /// The values of those of some keys that are there.
    pub fn those<'k>(&self, keys: &'k [&'k str]) -> impl Iterator<Item = (&'k str, Value<'a>)> {
        keys.iter().filter_map(|key| Some((*key, self.get(key)?)))
    }

    /// The only one of some keys that is there; `example` shows how they look.
    ///
    /// # Errors
    /// None is there, or several are.
    pub fn one_of<'k>(&self, keys: &'k [&'k str], example: &str) -> Result<(&'k str, Value<'a>)> {
        let there: Vec<_> = self.those(keys).collect();
        match there[..] {
            [only] => Ok(only),
            [] => Err(self.error(format!(
                "{} needs one of {}, such as {example}",
                self.shape.title,
                keys.join(", ")
            ))),
            [(first, _), (second, value), ..] => Err(value.error(format!(
                "{second} stands beside {first}; {} takes only one of {}",
                self.shape.title,
                keys.join(", ")
            ))),
        }
    }

    /// What messages call it.
    pub fn title(&self) -> &'static str {
        self.shape.title
    }

    /// A mistake of the table as a whole.
    pub fn error(&self, message: impl Into<String>) -> Mistake {
        self.source.error(self.at, message)
    }
}

/// A value of a file.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    source: &'a Source<'a>,
    key: &'a str,
    node: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    /// Where it stands.
    pub fn place(&self) -> Place {
        self.source.place(self.node.span().start)
    }

    /// The text in the file, quotes included.
    pub fn text(&self) -> &'a str {
        self.source.text.get(self.node.span()).unwrap_or_default()
    }

    /// A mistake here.
    pub fn error(&self, message: impl Into<String>) -> Mistake {
        self.source.error(self.node.span().start, message)
    }

    /// Something else should stand here.
    pub fn expected(&self, what: impl std::fmt::Display) -> Mistake {
        self.error(format!(
            "{}: expected {what}, not {}",
            self.key,
            self.quoted()
        ))
    }

    /// The key that it belongs to.
    pub fn key(&self) -> &'a str {
        self.key
    }

    /// The value as the file has it, on one line.
    fn quoted(&self) -> String {
        let text = match self.node.get_ref() {
            DeValue::Table(_) => return "a table".into(),
            DeValue::Array(array) if array.is_empty() => return "an empty array".into(),
            DeValue::Array(_) => return "an array".into(),
            _ => self.text(),
        };
        let line = text.lines().next().unwrap_or_default();
        let mut short: String = line.chars().take(QUOTED_MAX).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        self.node.get_ref().is_str()
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.node.get_ref().is_array()
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        matches!(self.node.get_ref(), DeValue::Integer(_) | DeValue::Float(_))
    }

    /// A number within limits.
    ///
    /// # Errors
    /// It is something else.
    pub fn number(&self, limits: Limits) -> Result<f64> {
        let number = match self.node.get_ref() {
            DeValue::Integer(integer) => whole(integer).map(|number| number as f64),
            DeValue::Float(float) => float.as_str().parse().ok(),
            _ => None,
        };
        number
            .filter(|number| limits.allow(*number))
            .ok_or_else(|| self.expected(limits))
    }

    /// A whole number within limits.
    ///
    /// # Errors
    /// It is something else.
    pub fn integer<T>(&self, limits: RangeInclusive<T>) -> Result<T>
    where
        T: TryFrom<i128> + PartialOrd + std::fmt::Display,
    {
        let number = self.node.get_ref().as_integer().and_then(whole);
        number
            .and_then(|number| T::try_from(number).ok())
            .filter(|number| limits.contains(number))
            .ok_or_else(|| {
                self.expected(format!(
                    "a whole number from {} to {}",
                    limits.start(),
                    limits.end()
                ))
            })
    }

    /// True or false.
    ///
    /// # Errors
    /// It is something else.
    pub fn boolean(&self) -> Result<bool> {
        let value = self.node.get_ref().as_bool();
        value.ok_or_else(|| self.expected("true or false"))
    }

    /// A string; `what` it is when it is none.
    ///
    /// # Errors
    /// It is something else.
    pub fn string(&self, what: &str) -> Result<&'a str> {
        match self.node.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }

    /// What one of some words stands for.
    ///
    /// # Errors
    /// It is something else.
    pub fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let spelt: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.word_of(&spelt).map(|index| words[index].1)
    }

    /// The index of one of some words.
    ///
    /// # Errors
    /// It is something else.
    pub fn word_of(&self, words: &[&str]) -> Result<usize> {
        let text = self.node.get_ref().as_str();
        let found = words.iter().position(|word| Some(*word) == text);
        found.ok_or_else(|| self.expected(alternatives(words)))
    }

    /// The elements of an array; `what` it is when it is none.
    ///
    /// # Errors
    /// It is something else.
    pub fn array(&self, what: &str) -> Result<Vec<Value<'a>>> {
        let Some(array) = self.node.get_ref().as_array() else {
            return Err(self.expected(what));
        };
        let element = |node| Value { node, ..*self };
        Ok(array.iter().map(element).collect())
    }

    /// The two elements of an array of two; `what` it is when it is none.
    ///
    /// # Errors
    /// It is something else.
    pub fn pair(&self, what: &str) -> Result<[Value<'a>; 2]> {
        let elements = self.array(what)?;
        <[Value; 2]>::try_from(elements).map_err(|_| self.expected(what))
    }

    /// A table.
    ///
    /// # Errors
    /// It is something else.
    pub fn section(&self, shape: &'static Shape) -> Result<Section<'a>> {
        let Some(table) = self.node.get_ref().as_table() else {
            return Err(self.expected(shape.form));
        };
        Section {
            source: self.source,
            shape,
            table,
            at: self.node.span().start,
        }
        .checked()
    }

    /// Tables of one kind, each with a header in double brackets, or an array of inline tables.
    ///
    /// # Errors
    /// It is something else.
    pub fn sections(&self, shape: &'static Shape) -> Result<Vec<Section<'a>>> {
        if self.node.get_ref().is_table() && shape.title.starts_with("[[") {
            return Err(self.error(format!(
                "{} can be there several times: write its header as {}, with double brackets",
                self.key, shape.title
            )));
        }
        let elements = self.array(shape.form)?;
        elements.iter().map(|table| table.section(shape)).collect()
    }
}

fn whole(integer: &DeInteger) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// `"a", "b" or "c"`.
pub fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => "nothing".into(),
    }
}

/// A word among some that is much like another one, as an end of a message.
pub fn similar<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let scored = known.map(|known| (strsim::jaro_winkler(word, known), known));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > SIMILAR).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        title: "the file",
        form: "a table",
        keys: &["a", "name"],
        elsewhere: &[],
    };

    #[test]
    fn places_are_lines_and_characters() {
        let (file, text) = ("x.toml", "a = 'é'\nname = \"\\x2d\"\n");
        let source = Source { file, text };
        let table = source.table().unwrap();
        let root = Section::root(&source, &SHAPE, &table).unwrap();
        let name = root.get("name").unwrap();
        assert_eq!(name.place().to_string(), "x.toml:2:8");
        assert_eq!(name.error("is wrong").to_string(), "x.toml:2:8: is wrong");
        assert_eq!((name.string("").unwrap(), name.text()), ("-", "\"\\x2d\""));
        assert_eq!(source.place("a = 'é".len()).column, 7);
    }

    #[test]
    fn a_backslash_that_begins_no_escape_is_told_its_place_and_the_remedy() {
        let (file, text) = ("x.toml", "name = \"a\\-b\"\n");
        let said = Source { file, text }.table().unwrap_err().to_string();
        assert!(said.starts_with("x.toml:1:"), "{said}");
        assert!(said.contains("in single quotes"), "{said}");
    }
}
