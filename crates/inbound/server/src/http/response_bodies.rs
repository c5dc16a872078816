//! The bodies of responses.

use schemars::JsonSchema;
use serde::Serialize;
use smallvec::SmallVec;
use tollway::{Settled, Span, Timestamp};
use tollway_inbound::headers::{LimitStatus, whole_ms};

use super::problem::Problem;
use crate::alone::Alone;

/// The decision on a take.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TakeAnswer<'a> {
    /// Whether the take was granted. If not, nothing was charged.
    pub(crate) granted: bool,
    /// If granted: how long to wait before the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delay_ms: Option<u64>,
    /// If denied: when to retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// If denied: the policy that denied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<&'a str>,
    /// If denied: the limit that denied it for the longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<&'a str>,
    /// Every limit after the decision. Empty if it was decided without the store or from a lease.
    #[schemars(with = "Vec<LimitAnswer>")]
    pub(crate) limits: SmallVec<[LimitAnswer<'a>; 4]>,
    /// If granted: the permit for later requests about the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
    /// Whether it was decided without the store.
    pub(crate) degraded: bool,
    /// What this client may take of the policy and subject while it cannot reach the server, with a cost of these units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alone: Option<Alone<'a>>,
    /// Whether a shadow policy would have denied it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) would_deny: bool,
}

impl TakeAnswer<'_> {
    /// Without any optional field.
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
            alone: None,
            would_deny: false,
        }
    }
}

/// The state of one limit.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LimitAnswer<'a> {
    /// Its policy, if the take had several.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    /// Its name.
    name: &'a str,
    /// The unit that it counts.
    unit: &'a str,
    /// How much per period, or how many slots.
    amount: u64,
    /// What is left.
    remaining: u64,
    /// How long until it resets.
    reset_ms: u64,
    /// If others have booked ahead: how far in the future these figures apply.
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

/// One entry of the response to several takes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum BatchEntry<'a> {
    /// The decision.
    Answer(Box<TakeAnswer<'a>>),
    /// The error, if there is no decision.
    Problem(Problem),
}

/// Whether a call may start.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BeginAnswer {
    /// How long to wait first; 0: start now.
    pub(crate) delay_ms: u64,
    /// The new permit, if the old one came too late and a new take was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
}

/// The result of a correction.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SettleAnswer {
    /// `whole`: every limit was corrected. `partly`: some limits were. `dropped`: none was. `repeated`: this permit was
    /// settled or returned before.
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

/// The end of a call.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoneAnswer {
    /// Always true.
    pub(crate) done: bool,
}

/// Whether a call's slots were kept.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RenewAnswer {
    /// False if a slot had expired.
    pub(crate) renewed: bool,
}
