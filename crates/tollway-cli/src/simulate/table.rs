//! Text in columns, for people.

use anstyle::Style;

use crate::failure::Failure;
use crate::output::Output;

/// Labels at the left, columns at the right.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

struct Row {
    label: String,
    style: Style,
    cells: Vec<String>,
}

impl Table {
    /// A row; one without cells is a heading.
    pub(super) fn row(&mut self, label: &str, style: Style, cells: Vec<String>) {
        self.rows.push(Row { label: label.to_owned(), style, cells });
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.row("", Style::new(), Vec::new());
    }

    /// Each column is as wide as its widest cell.
    pub(super) fn write(&self, output: &Output) -> Result<(), Failure> {
        let chars = |text: &String| text.chars().count();
        let label_width = self.rows.iter().map(|row| chars(&row.label)).max().unwrap_or(0);
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let width =
            |column| self.rows.iter().filter_map(|row| row.cells.get(column)).map(chars).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for Row { label, style, cells } in &self.rows {
            let mut line = if cells.is_empty() {
                format!("{style}{label}{style:#}")
            } else {
                format!("{label:label_width$}")
            };
            for (cell, width) in cells.iter().zip(&widths) {
                line += &format!("    {style}{cell:>width$}{style:#}");
            }
            output.line(line.trim_end())?;
        }
        Ok(())
    }
}
