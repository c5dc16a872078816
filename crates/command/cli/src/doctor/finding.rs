//! Findings: the problem, why it matters and the fix; and their report.

use anstyle::Style;
use serde::Serialize;

use crate::failure::Failure;
use crate::humanize;
use crate::layout::{COLUMNS, sentence};
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, WARN};

/// The most names that a finding lists.
pub(super) const NAMED_MAX: usize = 5;

/// The result of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The code that the guide explains.
    pub(super) code: &'static str,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) fix: String,
}

/// The severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Limits are not enforced as intended, or soon will not be.
    Problem,
    /// A remark; may be intended.
    Note,
}

impl Finding {
    pub(super) fn problem(
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Problem, code, what: what.into(), why: why.into(), fix: fix.into() }
    }

    pub(super) fn note(
        code: &'static str,
        what: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { level: Level::Note, ..Self::problem(code, what, why, fix) }
    }
}

/// All findings, and what was checked.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) looked_at: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn checked(&mut self, place: String) {
        self.looked_at.push(place);
    }

    /// How many findings are problems.
    pub(super) fn problems(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Problem).count()
    }
}

/// Writes the findings as text or JSON.
pub(super) fn write(findings: &Findings, output: &Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(findings);
    }
    if !output.is_quiet() {
        for place in &findings.looked_at {
            output.sentence("", FAINT, &format!("checked {place}"))?;
        }
    }
    findings.findings.iter().try_for_each(|finding| write_one(finding, output))?;
    match u64::try_from(findings.problems()).unwrap_or(u64::MAX) {
        0 => output.line(format_args!("{GOOD}no problems found{GOOD:#}")),
        1 => output.line(format_args!("{BAD}1 problem{BAD:#}")),
        number => output.line(format_args!("{BAD}{}{BAD:#}", humanize::counted(number, "problems"))),
    }
}

fn write_one(Finding { level, code, what, why, fix }: &Finding, output: &Output) -> Result<(), Failure> {
    let (style, word) = match level {
        Level::Problem => (BAD, "found"),
        Level::Note => (WARN, "note"),
    };
    let what = sentence(&format!("{what} [{code}]"), COLUMNS - word.len() - 2).join("\n  ");
    output.line(format_args!("{style}{word}:{style:#} {STRONG}{what}{STRONG:#}"))?;
    output.sentence("  why: ", Style::new(), why)?;
    output.sentence("  fix: ", Style::new(), fix)
}
