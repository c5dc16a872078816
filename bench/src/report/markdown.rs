//! Writes the table into a document, so that no figure is typed by hand.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::Report;
use super::table::{RIGHT, columns};
use crate::machine;

pub(super) fn section(report: &Report, quick: bool) -> String {
    let Report { group, rivals, rows, notes } = report;
    let quick = if quick { " --quick" } else { "" };
    let mut text = format!("    cargo run --profile dist -p tollway-bench -- {group}{quick}\n\n");
    let _ = writeln!(text, "Machine: {}. Rivals: {}.\n", machine::description(), machine::versions(rivals));
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    let (head, cells) = columns(rows);
    let _ = writeln!(text, "\n| {} |", head.join(" | "));
    let rule = |column| if RIGHT.contains(&column) { "---:" } else { "---" };
    let _ = writeln!(text, "| {} |", (0..head.len()).map(rule).collect::<Vec<_>>().join(" | "));
    for row in cells {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Replaces the section between the group's two marks; a document without them gets them at its end.
pub(super) fn write(file: &Path, group: &str, section: &str) -> Result<()> {
    let document = std::fs::read_to_string(file).unwrap_or_default();
    std::fs::write(file, with_section(&document, group, section))
        .with_context(|| format!("{} cannot be written", file.display()))
}

fn with_section(document: &str, group: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- {group} begin -->"), format!("<!-- {group} end -->"));
    let marked = format!("{begin}\n\n{section}\n{end}");
    let places = document.find(&begin).zip(document.find(&end));
    match places.filter(|(from, to)| from < to) {
        Some((from, to)) => format!("{}{marked}{}", &document[..from], &document[to + end.len()..]),
        None if document.is_empty() => format!("{marked}\n"),
        None => format!("{}\n\n{marked}\n", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::with_section;

    #[test]
    fn only_the_groups_own_section_changes() {
        let first = with_section("# Title\n", "a", "one");
        let both = with_section(&first, "b", "two");
        let changed = with_section(&both, "a", "three");
        assert_eq!(
            changed,
            "# Title\n\n<!-- a begin -->\n\nthree\n<!-- a end -->\n\n<!-- b begin -->\n\ntwo\n<!-- b end -->\n"
        );
    }
}
