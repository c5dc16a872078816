//! A table for a terminal.

use std::fmt::Write;

use super::row::{Better, Row, figure};

pub(super) const HEAD: [&str; 8] = ["case", "rival", "unit", "better", "ours", "theirs", "ratio", "wanted"];
/// The columns of figures.
pub(super) const RIGHT: std::ops::RangeInclusive<usize> = 4..=6;

pub(super) fn cells(row: &Row) -> [String; 8] {
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
    ]
}

pub(super) fn table(rows: &[Row], notes: &[String]) -> String {
    let lines: Vec<[String; 8]> =
        std::iter::once(HEAD.map(str::to_owned)).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
    let widths: [usize; 8] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let mut printed = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
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
