//! Which limits of a decision a response shows, and which comes first.

use tollway_core::{Limit, Name, Policy, Reading, Span};

use super::HeaderChoice;

/// One limit after a decision, as a response shows it.
#[derive(Clone, Copy, Debug)]
pub struct LimitStatus<'a> {
    /// The limit's policy, if the answer shows several policies and limit names alone may be ambiguous.
    pub policy: Option<&'a Name>,
    /// The limit.
    pub limit: &'a Limit,
    /// Its meter after the decision.
    pub reading: Reading,
    /// Whether it denied the take.
    pub refuses: bool,
    /// The headers that may show it.
    pub choice: HeaderChoice,
}

impl LimitStatus<'_> {
    /// The lowest rank is the most restrictive: limits that refuse first, then the shortest period.
    pub fn rank(&self) -> Rank {
        Rank { grants: !self.refuses, period: self.limit.period().unwrap_or(Span::MAX) }
    }
}

/// How restrictive a limit is, for answers that can show only one: the lowest is the most restrictive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    grants: bool,
    period: Span,
}

/// Of the limits that refuse, or of all if none does, the one with the shortest period.
pub fn most_restrictive<'s, 'a>(
    statuses: impl IntoIterator<Item = &'s LimitStatus<'a>>,
) -> Option<&'s LimitStatus<'a>>
where
    'a: 's,
{
    statuses.into_iter().min_by_key(|status| status.rank())
}

/// A policy of a decision, and how its limits are shown.
#[derive(Clone, Copy, Debug)]
pub struct PolicyView<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Whether the answer shows limits of other policies, too.
    pub among_others: bool,
    /// The headers that may show its limits.
    pub choice: HeaderChoice,
}

impl<'a> PolicyView<'a> {
    /// The status of every limit that has a reading. `refuses` gets the limit's index, the limit and its reading. A shadow
    /// policy never refuses, and no header shows it.
    pub fn statuses(
        self,
        readings: &[Reading],
        refuses: impl Fn(usize, &Limit, &Reading) -> bool,
    ) -> impl Iterator<Item = LimitStatus<'a>> {
        let Self { policy, among_others, choice } = self;
        let enforced = !policy.shadow();
        let choice = if enforced { choice } else { HeaderChoice::NONE };
        policy.limits().iter().zip(readings).enumerate().map(move |(index, (limit, reading))| LimitStatus {
            policy: among_others.then(|| policy.name()),
            limit,
            reading: *reading,
            refuses: enforced && refuses(index, limit, reading),
            choice,
        })
    }
}
