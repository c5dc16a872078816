//! The results, as text and JSON.

mod markdown;
mod row;
mod table;

use std::path::Path;

use anyhow::Result;

pub(crate) use row::{Better, Row, Wanted};

/// The rows of one group, and notes on the method.
pub(crate) struct BenchReport {
    group: &'static str,
    /// The names of their crates.
    rivals: &'static [&'static str],
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl BenchReport {
    pub(crate) fn new(group: &'static str, rivals: &'static [&'static str]) -> Self {
        Self { group, rivals, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// How many rows miss their target.
    pub(crate) fn missed(&self) -> usize {
        self.rows.iter().filter(|row| row.met() == Some(false)).count()
    }

    /// One JSON object per row and line. Notes go to stderr.
    pub(crate) fn print_json(&self) -> Result<()> {
        for note in &self.notes {
            eprintln!("{note}");
        }
        for row in &self.rows {
            println!("{}", serde_json::to_string(&row.in_group(self.group))?);
        }
        Ok(())
    }

    /// A table for a terminal.
    pub(crate) fn table(&self) -> String {
        table::table(&self.rows, &self.notes)
    }

    /// Writes the table into a document, in place of the last one.
    pub(crate) fn write_markdown(&self, file: &Path, quick: bool) -> Result<()> {
        markdown::write(file, self.group, &markdown::section(self, quick))
    }
}
