//! What a doctor tells: what it is, why it matters, what to do.

use serde::Serialize;

/// The most names that a finding repeats; of more it says how many there are.
pub(super) const NAMED_MAX: usize = 5;

/// Something that was found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The word by which the guide explains it.
    pub(super) code: &'static str,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) fix: String,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Limits are not enforced as somebody means, or soon will not be.
    Problem,
    /// Good to know; it may be meant just so.
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

/// All that was found, and where was looked.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) looked_at: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    pub(super) fn looked_at(&mut self, place: String) {
        self.looked_at.push(place);
    }

    /// How many of them are no mere notes.
    pub(super) fn problems(&self) -> usize {
        self.findings.iter().filter(|finding| finding.level == Level::Problem).count()
    }
}
