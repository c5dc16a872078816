//! What a handler answers, and how it is read from JSON.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tollway_core::{Name, Span};

use super::redact::Redactor;
use crate::{JobCost, JobError, Output};

/// What a handler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The job is done.
    Done {
        /// What it hands on.
        outputs: Vec<Handed>,
        /// JSON, for `results`.
        result: Option<String>,
        /// What the call took in fact, by unit; units that are missing took what was planned.
        cost: BTreeMap<String, u64>,
    },
    /// The job failed, and may be tried again.
    Retry {
        /// One line, the same for the same fault.
        error: String,
        /// More for a reader.
        detail: String,
        /// The pause before the next try, in place of the stage's backoff.
        after: Option<Span>,
    },
    /// The vendor refused the call for its rate: its policies are held, and no try is used.
    RateLimited {
        /// How long the vendor wants no calls, if it said so.
        after: Option<Span>,
        /// What the vendor said.
        error: String,
    },
    /// The job can never be done.
    Dead {
        /// One line, the same for the same fault.
        error: String,
        /// More for a reader.
        detail: String,
    },
    /// The handler did not answer: its process died, or answered what cannot be read.
    Crash {
        /// One line, the same for the same fault.
        error: String,
        /// The first or last output of the process.
        detail: String,
        /// The handler cannot work at all: the stage is paused.
        pause: bool,
    },
    /// The handler cannot be reached, and knows nothing of the job: no try is used, and the stage waits until it can be reached.
    Unreachable {
        /// One line, the same for the same fault.
        error: String,
        /// More for a reader.
        detail: String,
    },
}

impl Answer {
    /// Done, with nothing to hand on.
    pub fn done() -> Self {
        Self::hands_on::<String>([])
    }

    /// Done; these become jobs of the next stage, JSON each.
    pub fn hands_on<T: Into<String>>(data: impl IntoIterator<Item = T>) -> Self {
        let outputs = data.into_iter().map(|data| Handed::new(data.into())).collect();
        Self::Done { outputs, result: None, cost: BTreeMap::new() }
    }

    /// Failed, with this error.
    pub fn retry(error: impl Into<String>) -> Self {
        Self::Retry { error: error.into(), detail: String::new(), after: None }
    }

    /// Failed, because the answer did not come in time.
    pub(crate) fn too_late(timeout: Span, detail: String) -> Self {
        Self::Retry { error: format!("no answer within {timeout}"), detail, after: None }
    }

    /// Hopeless, with this error.
    pub fn dead(error: impl Into<String>) -> Self {
        Self::Dead { error: error.into(), detail: String::new() }
    }

    /// The same without secrets in its errors.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        let texts = match &mut self {
            Self::Done { .. } => [None, None],
            Self::RateLimited { error, .. } => [Some(error), None],
            Self::Retry { error, detail, .. }
            | Self::Dead { error, detail }
            | Self::Crash { error, detail, .. }
            | Self::Unreachable { error, detail } => [Some(error), Some(detail)],
        };
        texts.into_iter().flatten().for_each(|text| *text = redactor.redact(text));
        self
    }

    /// Refused by the vendor.
    pub fn rate_limited(after: Option<Span>) -> Self {
        Self::RateLimited { after, error: String::new() }
    }
}

/// What a handler hands on: one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// JSON, kept byte for byte.
    pub data: String,
    /// Its stage; none: the next one.
    pub stage: Option<String>,
    /// Its group; none: the group of the finished job.
    pub group: Option<String>,
    /// A key that other jobs may hand on as well: all of them become one job.
    pub join: Option<String>,
    /// Its cost; empty: that of its stage.
    pub cost: JobCost,
}

impl Handed {
    /// A job for the next stage.
    pub fn new(data: impl Into<String>) -> Self {
        Self { data: data.into(), stage: None, group: None, join: None, cost: JobCost::OF_STAGE }
    }

    /// As an engine takes it, from a stage with this next one.
    pub(crate) fn into_output(self, next: Option<&Name>, known: &[Name]) -> Result<Output, String> {
        let stage = match &self.stage {
            Some(name) => known.iter().find(|stage| stage.as_str() == name),
            None => next,
        };
        let Some(stage) = stage else {
            return Err(match self.stage {
                Some(name) => format!("handed a job on to {name:?}, which is no later stage"),
                None => "handed a job on, but this is the last stage".to_owned(),
            });
        };
        self.to_output(stage).map_err(|error| format!("handed on what cannot be a job: {error}"))
    }

    fn to_output(&self, stage: &Name) -> Result<Output, JobError> {
        let mut output = Output::new(stage, &self.data)?.cost(self.cost.clone());
        if let Some(group) = &self.group {
            output = output.group(group)?;
        }
        match &self.join {
            Some(key) => output.join(key),
            None => Ok(output),
        }
    }
}

/// The fields of an answer in JSON, beside the one that says which it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AnswerFields {
    outputs: Vec<HandedFields>,
    result: Option<Box<RawValue>>,
    cost: BTreeMap<String, u64>,
    error: String,
    detail: String,
    /// Seconds.
    after: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandedFields {
    data: Box<RawValue>,
    stage: Option<String>,
    group: Option<String>,
    join: Option<String>,
    #[serde(default)]
    cost: BTreeMap<String, BTreeMap<String, u64>>,
}

impl AnswerFields {
    /// Reads an object that may have these keys. A misspelt key would lose what it names.
    pub(crate) fn read(json: &[u8], keys: &[&str]) -> Result<Self, String> {
        let found: BTreeMap<String, IgnoredAny> =
            serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if let Some(unknown) = found.keys().find(|key| !keys.contains(&key.as_str())) {
            return Err(format!("the key {unknown:?} is unknown; it may have {}", keys.join(", ")));
        }
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    pub(crate) fn outputs(self) -> Result<Vec<Handed>, String> {
        self.outputs.into_iter().map(HandedFields::read).collect()
    }

    pub(crate) fn done(mut self) -> Result<Answer, String> {
        let result = self.result.take().map(|result| result.get().to_owned());
        let cost = std::mem::take(&mut self.cost);
        Ok(Answer::Done { outputs: self.outputs()?, result, cost })
    }

    pub(crate) fn retry(self) -> Answer {
        let after = self.pause();
        Answer::Retry { error: or(self.error, "the handler failed"), detail: self.detail, after }
    }

    pub(crate) fn rate_limited(self) -> Answer {
        let after = self.pause();
        Answer::RateLimited { after, error: or(self.error, "the vendor refused the call for its rate") }
    }

    pub(crate) fn dead(self) -> Answer {
        Answer::Dead { error: or(self.error, "the handler gave the job up"), detail: self.detail }
    }

    fn pause(&self) -> Option<Span> {
        let after = self.after.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        after.map(|seconds| Span::from_micros((seconds * 1e6) as u64))
    }
}

impl HandedFields {
    fn read(self) -> Result<Handed, String> {
        let amounts = self.cost.iter().flat_map(|(policy, units)| {
            units.iter().map(move |(unit, amount)| (policy.as_str(), unit.as_str(), *amount))
        });
        let cost = JobCost::new(amounts).map_err(|error| error.to_string())?;
        let data = self.data.get().to_owned();
        Ok(Handed { data, stage: self.stage, group: self.group, join: self.join, cost })
    }
}

fn or(text: String, instead: &str) -> String {
    if text.is_empty() { instead.to_owned() } else { text }
}
