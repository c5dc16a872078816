//! A table for a terminal.

use std::fmt::Write;

use super::row::{Better, Row, figure};

/// The last column, `curve`, only if a row has one.
const HEAD: [&str; 9] = ["case", "rival", "unit", "better", "ours", "theirs", "ratio", "wanted", "curve"];
/// The columns of figures.
pub(super) const RIGHT: std::ops::RangeInclusive<usize> = 4..=6;

/// The heads of the columns, and the cells of each row.
pub(super) fn columns(rows: &[Row]) -> (&'static [&'static str], Vec<Vec<String>>) {
    let curves = rows.iter().any(|row| row.curve.is_some());
    let count = if curves { HEAD.len() } else { HEAD.len() - 1 };
    let cells = |row| cells(row).into_iter().take(count).collect();
    (&HEAD[..count], rows.iter().map(cells).collect())
}

fn cells(row: &Row) -> [String; 9] {
    let better = if row.better == Better::Lower { "lower" } else { "higher" };
    [
        row.case.clone(),
        row.rival.clone(),
        row.unit.to_owned(),
        better.to_owned(),
        figure(row.ours),
        figure(row.theirs),
        row.ratio_text(),
        row.verdict(),
        row.curve.unwrap_or_default().to_owned(),
    ]
}

pub(super) fn table(rows: &[Row], notes: &[String]) -> String {
    let (head, cells) = columns(rows);
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut printed = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            if RIGHT.contains(&column) {
                let _ = write!(printed, "{cell:>width$}  ");
            } else {
                let _ = write!(printed, "{cell:<width$}  ");
            }
        }
        let _ = writeln!(text, "{}", printed.trim_end());
    }
    for note in notes {
        let _ = writeln!(text, "\n{note}");
    }
    text
}
