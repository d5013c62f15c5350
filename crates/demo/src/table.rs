//! Tables for people: titled columns, at most [`WIDTH`] wide where what stands in them has room there.

use sidelane_smt::latency::Spread;
use std::fmt;

/// Columns of a page.
pub const WIDTH: usize = 100;
/// Between a column that ends at its right edge and one that begins at its left edge.
const GAP: usize = 2;

/// Rows of a kind, and what is shown of each.
pub struct Table<'a, R> {
    rows: &'a [R],
    indent: usize,
    columns: Vec<Column>,
}

struct Column {
    title: String,
    /// With the space to the next one, or to the one before if it ends at its right edge.
    width: usize,
    is_right: bool,
    cells: Vec<String>,
}

impl<'a, R> Table<'a, R> {
    /// Without columns yet.
    pub fn of(rows: &'a [R]) -> Table<'a, R> {
        Table {
            rows,
            indent: 0,
            columns: Vec::new(),
        }
    }

    /// With so much space before each line.
    pub fn indented(self, indent: usize) -> Table<'a, R> {
        Table { indent, ..self }
    }

    /// Adds a column whose cells begin at its left edge. It is as wide as asked, or as its cells need.
    pub fn left(self, title: &str, width: usize, cell: impl Fn(&R) -> String) -> Table<'a, R> {
        self.column(title, width, false, cell)
    }

    /// Adds a column whose cells end at its right edge.
    pub fn right(self, title: &str, width: usize, cell: impl Fn(&R) -> String) -> Table<'a, R> {
        self.column(title, width, true, cell)
    }

    /// Adds a number, with so many digits after the point.
    pub fn number(
        self,
        title: &str,
        width: usize,
        digits: usize,
        value: impl Fn(&R) -> f64,
    ) -> Table<'a, R> {
        self.right(title, width, |row| format!("{:.digits$}", value(row)))
    }

    /// Adds a ratio to what another setup has.
    pub fn ratio(self, title: &str, width: usize, value: impl Fn(&R) -> f64) -> Table<'a, R> {
        self.number(title, width, 2, value)
    }

    /// Adds a median with its range; `-` where there is none.
    pub fn spread<S: Into<Option<Spread>>>(
        self,
        title: &str,
        width: usize,
        digits: usize,
        value: impl Fn(&R) -> S,
    ) -> Table<'a, R> {
        let cell = |row: &R| value(row).into().map_or("-".into(), |s| spread(s, digits));
        self.left(title, width, cell)
    }

    fn column(
        mut self,
        title: &str,
        width: usize,
        is_right: bool,
        cell: impl Fn(&R) -> String,
    ) -> Table<'a, R> {
        self.columns.push(Column {
            title: title.into(),
            width,
            is_right,
            cells: self.rows.iter().map(cell).collect(),
        });
        self
    }

    /// Widths of all columns: as asked where all have room like that.
    fn widths(&self) -> Vec<usize> {
        let columns = || self.columns.iter().enumerate();
        let needed: Vec<usize> = columns()
            .map(|(at, column)| self.needed(at, column))
            .collect();
        let asked = columns().zip(&needed);
        let asked: Vec<usize> = asked.map(|((_, c), needed)| c.width.max(*needed)).collect();
        // no space follows the last column
        let last = self.columns.last().zip(asked.last()).zip(needed.last());
        let last_spare = last.map_or(0, |((last, asked), needed)| match last.is_right {
            true => 0,
            false => 1 + asked - needed,
        });
        let gaps = self.columns.windows(2).filter(|pair| has_gap(pair));
        let total = self.indent + asked.iter().sum::<usize>() + GAP * gaps.count() - last_spare;
        match total <= WIDTH {
            true => asked,
            false => needed,
        }
    }

    /// What a column needs for its cells and one space: behind them, or before them if that of the column before is
    /// not there.
    fn needed(&self, at: usize, column: &Column) -> usize {
        let texts = column.cells.iter().chain([&column.title]);
        let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        let before = at
            .checked_sub(1)
            .and_then(|before| self.columns.get(before));
        let has_space = !column.is_right || before.is_some_and(|before| before.is_right);
        longest + usize::from(has_space)
    }

    fn line<'c>(&'c self, widths: &[usize], cell: impl Fn(&'c Column) -> &'c str) -> String {
        let mut line = " ".repeat(self.indent);
        for (at, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            let pair = at
                .checked_sub(1)
                .and_then(|before| self.columns.get(before..=at));
            if pair.is_some_and(has_gap) {
                line.push_str(&" ".repeat(GAP));
            }
            line.push_str(&match column.is_right {
                true => format!("{:>width$}", cell(column)),
                false => format!("{:<width$}", cell(column)),
            });
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn has_gap(pair: &[Column]) -> bool {
    matches!(pair, [before, after] if before.is_right && !after.is_right)
}

impl<R> fmt::Display for Table<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        writeln!(f, "{}", self.line(&widths, |column| &column.title))?;
        for row in 0..self.rows.len() {
            let line = self.line(&widths, |column| {
                column.cells.get(row).map_or("", String::as_str)
            });
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Median and range, as all tables have them.
pub fn spread(of: Spread, digits: usize) -> String {
    format!("{:.digits$} {}", of.median, range(of, digits))
}

/// The range alone.
pub fn range(Spread { min, max, .. }: Spread, digits: usize) -> String {
    format!("({min:.digits$} … {max:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_keep_their_edges() {
        let of = |median| Spread {
            min: 0.5,
            median,
            max: 2.0,
        };
        let rows = [
            ("default", of(1.0), Some(0.25)),
            ("a longer name", of(10.0), None),
        ];
        let table = Table::of(&rows)
            .indented(2)
            .left("", 9, |row| row.0.into())
            .number("ms", 8, 1, |row| row.1.median)
            .left("(min … max)", 0, |row| range(row.1, 1))
            .ratio("/first", 9, |row| row.1.median)
            .spread("share", 0, 1, |row| row.2.map(of));
        let lines = [
            "                      ms  (min … max)    /first  share",
            "  default            1.0  (0.5 … 2.0)      1.00  0.2 (0.5 … 2.0)",
            "  a longer name     10.0  (0.5 … 2.0)     10.00  -",
        ];
        assert_eq!(table.to_string().lines().collect::<Vec<_>>(), lines);
    }

    proptest! {
        /// Whatever widths are asked for, and on whichever side cells stand.
        #[test]
        fn what_has_room_fits_and_nothing_touches(
            columns in proptest::collection::vec((0..60usize, any::<bool>(), 1..8usize), 1..10),
        ) {
            let rows = [()];
            let mut table = Table::of(&rows);
            for (width, is_right, length) in &columns {
                table = table.column("x", *width, *is_right, |()| "y".repeat(*length));
            }
            let text = table.to_string();
            for line in text.lines() {
                prop_assert!(line.chars().count() <= WIDTH, "{text}");
            }
            let lengths: Vec<usize> = columns.iter().map(|column| column.2).collect();
            let cells = text.lines().nth(1).unwrap().split_whitespace();
            prop_assert_eq!(cells.map(str::len).collect::<Vec<_>>(), lengths);
        }
    }
}
