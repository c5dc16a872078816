//! The outcome of a pipeline.

use std::collections::BTreeMap;
use std::fmt;

use tollway_core::Span;

use super::SHARE_MIN;
use super::fault::Fault;
use super::windows::{Trouble, Used};

/// Fewer windows say nothing about the share.
const WINDOWS_MIN: u64 = 12;

pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) note: String,
    pub(super) troubles: Vec<Trouble>,
    pub(super) used: Used,
    /// What the checker says: its figures, or what is wrong.
    pub(super) checked: Result<String, String>,
}

impl Outcome {
    /// What must not be.
    pub(super) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Err(found) = &self.checked {
            wrong.push(format!("{}: {found}", self.name));
        }
        if self.used.windows >= WINDOWS_MIN && self.used.share() < SHARE_MIN {
            wrong.push(format!("{}: {}; {SHARE_MIN} % must be used", self.name, self.used));
        }
        wrong
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, note, troubles, used, checked } = self;
        writeln!(f, "{name}: {note}")?;
        let mut faults: BTreeMap<Fault, (u64, Span)> = BTreeMap::new();
        for trouble in troubles {
            let (times, span) = faults.entry(trouble.fault).or_default();
            (*times, *span) = (*times + 1, span.plus(trouble.to.since(trouble.from)));
        }
        for (fault, (times, span)) in faults {
            writeln!(f, "  {fault:?}: {times} times, {} s in all", span.as_micros() / 1_000_000)?;
        }
        writeln!(f, "  {used}")?;
        match checked {
            Ok(figures) => {
                write!(f, "  0 lost, 0 committed twice, 0 above the quota: {}", figures.trim_end())
            }
            Err(wrong) => write!(f, "  WRONG: {}", wrong.trim_end()),
        }
    }
}
