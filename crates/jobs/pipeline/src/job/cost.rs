//! The cost that is stored with a job.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::JobError;
use super::bounds::COST_BYTES_MAX;

/// What a job takes before it is claimed: amounts per policy and unit, as canonical JSON. Equal costs are equal texts.
///
/// The empty cost stands for the cost in the stage's config, so that a changed config applies to jobs that wait already.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobCost(String);

impl JobCost {
    /// The cost in the stage's config.
    pub const OF_STAGE: Self = Self(String::new());

    /// A cost of its own: policy, unit, amount.
    ///
    /// ```
    /// use tollway_pipeline::JobCost;
    ///
    /// let cost = JobCost::new([("gemini", "tokens", 3_750), ("gemini", "requests", 1)]).unwrap();
    /// assert_eq!(cost.as_str(), r#"{"gemini":{"requests":1,"tokens":3750}}"#);
    /// ```
    pub fn new<'a>(amounts: impl IntoIterator<Item = (&'a str, &'a str, u64)>) -> Result<Self, JobError> {
        let mut cost = Amounts::new();
        for (policy, unit, amount) in amounts {
            cost.entry(policy.to_owned()).or_default().insert(unit.to_owned(), amount);
        }
        Self::of(&cost)
    }

    /// Reads the text of a cost: `{"policy": {"unit": amount}}`, or empty.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        if text.is_empty() {
            return Ok(Self::OF_STAGE);
        }
        let amounts: Amounts =
            serde_json::from_str(text).map_err(|error| JobError::Cost { reason: error.to_string() })?;
        Self::of(&amounts)
    }

    /// The amounts: policy, unit, amount. Empty for [`JobCost::OF_STAGE`].
    pub fn amounts(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A text that was canonical when it was stored.
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    fn of(amounts: &Amounts) -> Result<Self, JobError> {
        let text =
            serde_json::to_string(amounts).map_err(|error| JobError::Cost { reason: error.to_string() })?;
        if text.len() > COST_BYTES_MAX {
            return Err(JobError::TooLong { what: "the cost", bytes: text.len(), max: COST_BYTES_MAX });
        }
        Ok(Self(if amounts.is_empty() { String::new() } else { text }))
    }
}

impl TryFrom<String> for JobCost {
    type Error = JobError;

    fn try_from(text: String) -> Result<Self, JobError> {
        Self::parse(&text)
    }
}

impl From<JobCost> for String {
    fn from(cost: JobCost) -> Self {
        cost.0
    }
}

type Amounts = BTreeMap<String, BTreeMap<String, u64>>;

impl fmt::Display for JobCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the stage's cost" } else { &self.0 })
    }
}
