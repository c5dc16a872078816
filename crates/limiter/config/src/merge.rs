//! One table out of the tables of several files.
//!
//! Sections of one name are one section; a key that two files have is a mistake that names both places. The places of a
//! file's values start where its text starts in the [`ProblemReport`].

use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use crate::include::INCLUDE;
use crate::report::ProblemReport;

/// Adds the table of a file, whose places are counted in all texts together.
pub(crate) fn merge<'a>(whole: &mut DeTable<'a>, of_file: DeTable<'a>, report: &ProblemReport<'_>) {
    for (name, value) in of_file {
        if name.get_ref() == INCLUDE {
            // Those of files have been followed.
            if !report.is_of_files() {
                report.problem(name.span(), "only a file can include others", "write the sections here");
            }
            continue;
        }
        match (whole.get_mut(&name), value.get_ref().is_table()) {
            (Some(known), true) if known.get_ref().is_table() => {
                if let (DeValue::Table(known), DeValue::Table(section)) =
                    (known.get_mut(), value.into_inner())
                {
                    merge_section(name.get_ref(), known, section, report);
                }
            }
            (Some(_), _) => report_twice("", &name, whole, report),
            (None, _) => drop(whole.insert(name, value)),
        }
    }
}

fn merge_section<'a>(section: &str, known: &mut DeTable<'a>, other: DeTable<'a>, report: &ProblemReport<'_>) {
    for (name, value) in other {
        if known.contains_key(&name) {
            report_twice(section, &name, known, report);
        } else {
            known.insert(name, value);
        }
    }
}

fn report_twice(
    section: &str,
    name: &Spanned<DeString<'_>>,
    table: &DeTable<'_>,
    report: &ProblemReport<'_>,
) {
    let dot = if section.is_empty() { "" } else { "." };
    let before = table.get_key_value(name).map(|(known, _)| report.place_of(known.span().start));
    let message = format!(
        "{section}{dot}{} is in two files of this config; the other place is {}",
        name.get_ref(),
        before.unwrap_or_default()
    );
    report.problem(name.span(), message, "remove one of the two");
}

/// The table with every place moved by `offset`.
pub(crate) fn moved<'a>(table: DeTable<'a>, offset: usize) -> DeTable<'a> {
    let entry = |(name, value): (Spanned<DeString<'a>>, Spanned<DeValue<'a>>)| {
        let (at, key) = (name.span(), name.into_inner());
        (
            Spanned::new(at.start.saturating_add(offset)..at.end.saturating_add(offset), key),
            moved_value(value, offset),
        )
    };
    table.into_iter().map(entry).collect()
}

fn moved_value<'a>(value: Spanned<DeValue<'a>>, offset: usize) -> Spanned<DeValue<'a>> {
    let at = value.span();
    let inner = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved(table, offset)),
        DeValue::Array(list) => {
            let list: DeArray<'a> = list.into_iter().map(|item| moved_value(item, offset)).collect();
            DeValue::Array(list)
        }
        other => other,
    };
    Spanned::new(at.start.saturating_add(offset)..at.end.saturating_add(offset), inner)
}
