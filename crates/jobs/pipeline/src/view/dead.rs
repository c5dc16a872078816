//! Dead letters: listed, counted by what they have in common, corrected.

use std::collections::HashMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use tollway_core::Timestamp;

use super::find::find_dead;
use super::{JobPages, JobView, ViewError};
use crate::{Administration, Edit, Edited, EngineError, Filter, Job};

/// Dead letters, the oldest first.
#[derive(Clone, Debug, Serialize)]
pub struct DeadLetters {
    /// How many there are.
    pub found: u64,
    /// The first of them, without their data.
    pub dead_letters: Vec<JobView>,
}

impl DeadLetters {
    /// Those that match, at most `limit`.
    pub async fn read(
        engine: &dyn Administration,
        filter: Filter,
        limit: usize,
    ) -> Result<Self, EngineError> {
        let found = engine.matching(filter.clone()).await?;
        let (mut dead_letters, mut pages) = (Vec::new(), JobPages::new(filter));
        while dead_letters.len() < limit
            && let Some(page) = pages.next(engine).await?
        {
            let room = limit - dead_letters.len();
            dead_letters.extend(page.iter().take(room).map(JobView::new));
        }
        Ok(Self { found, dead_letters })
    }
}

/// What dead letters are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindOf {
    /// Their last error.
    Error,
    /// Their stage.
    Stage,
    /// Their group; empty: those without one.
    Group,
}

impl KindOf {
    /// `error`, `stage` or `group`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Stage => "stage",
            Self::Group => "group",
        }
    }

    fn name(self, job: &Job) -> &str {
        match self {
            Self::Error => &job.error,
            Self::Stage => job.stage.as_str(),
            Self::Group => job.group.as_deref().unwrap_or_default(),
        }
    }
}

/// How many kinds are told apart. Errors with a number or a time in them may be as many as there are dead letters.
pub const KINDS_MAX: usize = 10_000;

/// How many dead letters of each kind.
#[derive(Clone, Debug)]
pub struct DeadLetterKinds {
    /// What they are counted by.
    pub by: KindOf,
    /// How many kinds there are.
    pub kinds: usize,
    /// Dead letters of further kinds than [`KINDS_MAX`].
    pub others: u64,
    /// The most frequent first.
    pub counts: Vec<DeadLetterKind>,
}

/// Dead letters of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterKind {
    /// What they have in common.
    pub name: String,
    /// How many.
    pub jobs: u64,
    /// The number of the first of them.
    pub example: u64,
}

impl DeadLetterKinds {
    /// Counts those that match, of which the `limit` most frequent kinds are listed. It reads every one of them.
    pub async fn count(
        engine: &dyn Administration,
        filter: Filter,
        by: KindOf,
        limit: usize,
    ) -> Result<Self, EngineError> {
        let (mut known, mut others) = (HashMap::<String, (u64, u64)>::new(), 0);
        let mut pages = JobPages::new(filter);
        while let Some(page) = pages.next(engine).await? {
            for job in &page {
                let name = by.name(job);
                if let Some((jobs, _)) = known.get_mut(name) {
                    *jobs += 1;
                } else if known.len() < KINDS_MAX {
                    known.insert(name.to_owned(), (1, job.id.get()));
                } else {
                    others += 1;
                }
            }
        }
        let kind = |(name, (jobs, example))| DeadLetterKind { name, jobs, example };
        let mut counts: Vec<DeadLetterKind> = known.into_iter().map(kind).collect();
        counts.sort_by(|one, other| (other.jobs, one.example).cmp(&(one.jobs, other.example)));
        let kinds = counts.len();
        counts.truncate(limit);
        Ok(Self { by, kinds, others, counts })
    }
}

impl Serialize for DeadLetterKinds {
    /// Each count has the field that it is by: `{"error": "HTTP 500", "jobs": 7, "example": 104}`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Row<'k>(&'static str, &'k DeadLetterKind);
        impl Serialize for Row<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self(by, DeadLetterKind { name, jobs, example }) = self;
                let mut fields = serializer.serialize_map(None)?;
                fields.serialize_entry(by, name)?;
                fields.serialize_entry("jobs", jobs)?;
                fields.serialize_entry("example", example)?;
                fields.end()
            }
        }
        let by = self.by.as_str();
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("by", by)?;
        fields.serialize_entry("kinds", &self.kinds)?;
        fields.serialize_entry("others", &self.others)?;
        fields
            .serialize_entry("counts", &self.counts.iter().map(|kind| Row(by, kind)).collect::<Vec<_>>())?;
        fields.end()
    }
}

/// Changes a dead letter, unless it is another one than was seen: edits take the time of a person.
pub async fn correct(
    engine: &dyn Administration,
    seen: &Job,
    edit: Edit,
    now: Timestamp,
) -> Result<(), ViewError> {
    let id = seen.id;
    let stored = find_dead(engine, &id.to_string()).await?;
    if stored.data != seen.data || stored.claim_number != seen.claim_number {
        let message = format!("dead letter {id} was changed meanwhile");
        return Err(ViewError::refused(message, "look at it again, and repeat the edit"));
    }
    match engine.edit(id, edit, now).await? {
        Edited::Changed => Ok(()),
        Edited::Refused(state) => Err(ViewError::refused(format!("job {id} is {state} meanwhile"), "")),
        Edited::Missing => Err(ViewError::not_found(format!("job {id} does not exist any more"), "")),
    }
}
