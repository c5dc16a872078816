//! What callers are answered, as typed bodies.

use schemars::JsonSchema;
use serde::Serialize;
use smallvec::SmallVec;
use tollway::{Settled, Span, Timestamp};
use tollway_inbound::headers::{LimitStatus, whole_ms};

use super::problem::Problem;

/// What was decided of a take.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TakeAnswer<'a> {
    /// Whether the whole cost was taken; if not, nothing was.
    pub(crate) granted: bool,
    /// Of a grant: how long to wait before the call may go out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_ms: Option<u64>,
    /// Of a denial: when to come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// Of a denial: the policy that said no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<&'a str>,
    /// Of a denial: the limit that said no, and would longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<&'a str>,
    /// What every limit shows after the decision. Empty where nobody could tell: without the store, or from a lease.
    #[schemars(with = "Vec<LimitAnswer>")]
    pub(crate) limits: SmallVec<[LimitAnswer<'a>; 4]>,
    /// Of a grant: what to name when the call begins, is done, or took something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
    /// Whether it was decided without the store.
    pub(crate) degraded: bool,
    /// Whether a policy that only watches would have denied it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) would_deny: bool,
}

impl TakeAnswer<'_> {
    /// With nothing to say yet.
    pub(crate) fn new(granted: bool) -> Self {
        Self {
            granted,
            delay_ms: None,
            retry_after_ms: None,
            policy: None,
            limit: None,
            limits: SmallVec::new(),
            permit: None,
            degraded: false,
            would_deny: false,
        }
    }
}

/// What one limit shows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitAnswer<'a> {
    /// Its policy, where the take had several.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// Its name.
    name: &'a str,
    /// What it counts.
    unit: &'a str,
    /// How much per period, or how many slots.
    amount: u64,
    /// What is left.
    remaining: u64,
    /// How long until it is whole again.
    reset_ms: u64,
    /// Where others have booked ahead: how far ahead of now these figures are.
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of_ms: Option<u64>,
}

impl<'a> LimitAnswer<'a> {
    pub(crate) fn new(status: &LimitStatus<'a>, now: Timestamp) -> Self {
        let LimitStatus { policy, limit, reading, .. } = *status;
        let ahead = reading.as_of.since(now);
        let holds_slots = limit.has_slots();
        Self {
            policy: policy.map(tollway::Name::as_str),
            name: limit.name().as_str(),
            unit: if holds_slots { "slots" } else { limit.unit().as_str() },
            amount: limit.amount(),
            remaining: reading.remaining,
            reset_ms: whole_ms(reading.resets_at.since(now)),
            as_of_ms: (ahead > Span::ZERO).then(|| whole_ms(ahead)),
        }
    }
}

/// One entry of the answer to several takes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum BatchEntry<'a> {
    /// It was decided.
    Answer(Box<TakeAnswer<'a>>),
    /// It was not.
    Problem(Problem),
}

/// Whether a call may go out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BeginAnswer {
    /// How long to wait first; 0: go.
    pub(crate) delay_ms: u64,
    /// The permit from now on, where the one that was named came too late and has taken again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
}

/// What came of a correction.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SettleAnswer {
    /// `whole`: every limit was put right. `partly`: some could no longer be. `repeated`: this permit was settled or
    /// returned before. `dropped`: nothing could be put right.
    settled: SettledWord,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettledWord {
    Whole,
    Partly,
    Repeated,
    Dropped,
}

impl From<Settled> for SettleAnswer {
    fn from(settled: Settled) -> Self {
        let settled = match settled {
            Settled::Whole => SettledWord::Whole,
            Settled::Partly => SettledWord::Partly,
            Settled::Repeated => SettledWord::Repeated,
            Settled::Dropped => SettledWord::Dropped,
        };
        Self { settled }
    }
}

/// That a call is over.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoneAnswer {
    /// Always true.
    pub(crate) done: bool,
}

/// Whether a call's slots were kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RenewAnswer {
    /// False if a slot was lost: it had expired.
    pub(crate) renewed: bool,
}
