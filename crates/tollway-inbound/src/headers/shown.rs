//! Which limits of a decision are shown, and which of them matters most.

use tollway_core::{Limit, Name, Policy, Reading, Span};

use super::HeaderChoice;

/// One limit of a decision, as it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Whose limit it is, where the decision has several policies and names alone may be ambiguous.
    pub policy: Option<&'a Name>,
    /// The limit.
    pub limit: &'a Limit,
    /// What its meter shows after the decision.
    pub reading: Reading,
    /// Whether it is why the take was denied.
    pub refuses: bool,
    /// Where it may be shown.
    pub choice: HeaderChoice,
}

impl Shown<'_> {
    /// The lower, the more it tells: of a denial, a limit that refuses; then the one with the shortest period.
    pub fn rank(&self) -> Rank {
        Rank { grants: !self.refuses, period: self.limit.period().unwrap_or(Span::MAX) }
    }
}

/// How much a limit tells, for those who can show only one: the lowest tells most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    grants: bool,
    period: Span,
}

/// Of a denial, a limit that refuses; else any. Of those, the one with the shortest period.
pub fn most_telling<'s, 'a>(shown: impl IntoIterator<Item = &'s Shown<'a>>) -> Option<&'s Shown<'a>>
where
    'a: 's,
{
    shown.into_iter().min_by_key(|one| one.rank())
}

/// A policy of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Whether limits of others are shown beside its own.
    pub among_others: bool,
    /// Where its limits may be shown.
    pub choice: HeaderChoice,
}

/// Who denied a take.
#[derive(Clone, Copy, Debug)]
pub struct Denial<'a> {
    /// The policy that would say no longest.
    pub policy: &'a Name,
    /// Its limit that would; nobody knows it where the store did not decide.
    pub limit: Option<&'a Name>,
}

impl<'a> Judged<'a> {
    /// Every limit with its reading, as far as there are any; `charge` is what was to be taken of each. A shadow refuses
    /// nobody, and what is left of it concerns nobody who is limited: no header tells of it.
    pub fn shown<'r>(
        self,
        readings: impl Iterator<Item = &'r Reading>,
        denial: Option<Denial<'_>>,
        charge: impl Fn(usize) -> u64,
    ) -> impl Iterator<Item = Shown<'a>> {
        let Self { policy, among_others, choice } = self;
        let enforced = !policy.shadow();
        let choice = if enforced { choice } else { HeaderChoice::NONE };
        policy.limits().iter().zip(readings).enumerate().map(move |(index, (limit, reading))| {
            // The one that would say no longest, and those that have no room either.
            let refuses = denial.filter(|_| enforced).is_some_and(|denial| {
                let named = denial.policy == policy.name() && denial.limit == Some(limit.name());
                named || charge(index) > reading.remaining
            });
            Shown { policy: among_others.then(|| policy.name()), limit, reading: *reading, refuses, choice }
        })
    }
}
