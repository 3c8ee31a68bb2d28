//! Text tables with aligned columns, the last one wrapped to the terminal's width.

use std::io;

use crate::terminal::Screen;
use crate::text::{NAME, QUIET, Text, styled, width, wrap};

/// Divisor of the terminal's width: the limit of every column but the last.
const PART: usize = 2;
/// The gap between columns.
const GAP: usize = 2;
/// Lines of a cell to show before the rest is omitted.
const TALLEST: usize = 6;

/// Rows of cells. The first column holds names.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [&str; N]) {
        // Escaped before it is measured. Runs of white space become one space, so that a cell is one line.
        let cell = |text: &str| Text::from(text.split_whitespace().collect::<Vec<_>>().join(" ")).plain();
        self.rows.push(cells.into_iter().map(cell).collect());
    }

    pub(crate) fn print(&self, screen: &mut Screen) -> io::Result<()> {
        for line in self.lines(screen.columns()) {
            screen.line(line)?;
        }
        Ok(())
    }

    pub(crate) fn lines(&self, columns: Option<usize>) -> Vec<Text> {
        let starts = self.starts(columns.map_or(usize::MAX, |columns| columns / PART));
        let headings: Vec<String> = self.headings.iter().map(|heading| heading.to_uppercase()).collect();
        let mut lines = self.row_lines(&headings, &starts, columns, |_, text| styled(QUIET, text));
        for row in &self.rows {
            let style = |column, text: &str| if column == 0 { styled(NAME, text) } else { Text::from(text) };
            lines.append(&mut self.row_lines(row, &starts, columns, style));
        }
        lines
    }

    /// The position at which each column begins.
    fn starts(&self, widest: usize) -> Vec<usize> {
        let mut start = 0;
        (0..self.headings.len())
            .map(|column| {
                let begins = start;
                let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
                let heading = self.headings.get(column).map_or(0, |heading| width(heading));
                start += cells.filter(|cell| *cell <= widest).chain([heading]).max().unwrap_or(0) + GAP;
                begins
            })
            .collect()
    }

    /// Lines of a row. After a cell wider than its column the row continues on the next line.
    fn row_lines(
        &self,
        row: &[String],
        starts: &[usize],
        columns: Option<usize>,
        style: impl Fn(usize, &str) -> Text,
    ) -> Vec<Text> {
        let mut lines = Vec::new();
        let mut line = Text::default();
        let mut filled = 0;
        for (column, (cell, start)) in row.iter().zip(starts).enumerate() {
            if filled > 0 && filled + GAP > *start {
                lines.push(std::mem::take(&mut line));
                filled = 0;
            }
            let last = column + 1 == starts.len();
            let room = columns.filter(|_| last).map(|columns| columns.saturating_sub(*start));
            let parts = if last { cut(wrap(cell, room)) } else { vec![cell.clone()] };
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    lines.push(std::mem::take(&mut line));
                    filled = 0;
                }
                if !part.is_empty() {
                    let gap = " ".repeat(start.saturating_sub(filled));
                    line = line.and(gap).and(style(column, part));
                    filled = start + width(part);
                }
            }
        }
        lines.push(line);
        lines
    }
}

fn cut(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > TALLEST {
        lines.truncate(TALLEST);
        if let Some(last) = lines.last_mut() {
            last.push_str(" …");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(table: &Table, columns: Option<usize>) -> Vec<String> {
        table.lines(columns).iter().map(Text::plain).collect()
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", "Says it\nagain"]);
        table.row(["緑茶", "Tea"]);
        assert_eq!(plain(&table, None), ["NAME  ABOUT", "echo  Says it again", "緑茶  Tea"]);
    }

    #[test]
    fn last_column_is_wrapped_under_itself() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", "one two three four five six seven"]);
        let lines = plain(&table, Some(30));
        assert_eq!(lines[1..], ["echo  one two three four five", "      six seven"]);
    }

    #[test]
    fn very_long_cell_is_cut() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["echo", &"word ".repeat(200)]);
        let lines = plain(&table, Some(40));
        assert_eq!(lines.len(), 1 + TALLEST);
        assert!(lines.last().is_some_and(|line| line.ends_with('…')));
    }

    #[test]
    fn row_continues_below_a_cell_that_is_too_wide() {
        let mut table = Table::new(&["name", "about"]);
        table.row([&"x".repeat(30), "long"]);
        table.row(["a", "short"]);
        let expected = ["NAME  ABOUT", &"x".repeat(30), "      long", "a     short"];
        assert_eq!(plain(&table, Some(40)), expected);
        assert_eq!(plain(&table, None)[2], format!("a{}short", " ".repeat(31)));
    }

    #[test]
    fn cells_of_a_peer_are_measured_as_they_are_shown() {
        let mut table = Table::new(&["name", "about"]);
        table.row(["a\u{200b}\x1b[2J", "tool"]);
        table.row(["b", "tool"]);
        let shown = r"a\u{200b}\u{1b}[2J";
        assert_eq!(
            plain(&table, None)[1..],
            [format!("{shown}  tool"), format!("b{}tool", " ".repeat(shown.len() + 1))]
        );
    }

    #[test]
    fn cell_may_be_empty() {
        let mut table = Table::new(&["name", "arguments", "about"]);
        table.row(["a", "", "first"]);
        table.row(["bb", "x", ""]);
        assert_eq!(plain(&table, None), ["NAME  ARGUMENTS  ABOUT", "a                first", "bb    x"]);
    }
}
