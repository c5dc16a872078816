//! Operations that own what they name, so that they can wait for the writer after the caller's batch is gone.

use tollway_core::{
    Booking, CallId, Cost, LineKey, Operation, Party, PermitId, Policy, Span, Subject, Terms, Verb,
};

/// An [`Operation`] of its own.
#[derive(Debug)]
pub(super) struct OwnedOperation {
    parties: Vec<OwnedParty>,
    verb: OwnedVerb,
}

#[derive(Debug)]
struct OwnedParty {
    policy: Policy,
    subject: Subject,
    cost: Cost,
}

#[derive(Debug)]
enum OwnedVerb {
    Take(OwnedTerms),
    Begin(Booking, OwnedTerms),
    Settle { booking: Booking, actual: Vec<Cost>, remember: bool },
    Return { booking: Booking, remember: bool },
    Done(PermitId),
    Renew(PermitId),
    Peek,
    Reset,
}

#[derive(Debug)]
struct OwnedTerms {
    permit: PermitId,
    max_wait: Span,
    call: Option<CallId>,
    readings: bool,
}

impl OwnedOperation {
    /// Lends it as the operation it was made from.
    pub(super) fn lend<T>(&self, serve: impl FnOnce(&Operation<'_>) -> T) -> T {
        let parties: Vec<Party<'_>> = self.parties.iter().map(OwnedParty::lend).collect();
        serve(&Operation { parties: &parties, verb: self.verb.lend() })
    }

    /// The keys of the lines it names.
    pub(super) fn keys(&self) -> impl Iterator<Item = LineKey> {
        self.parties
            .iter()
            .map(|party| LineKey { policy: party.policy.name().clone(), subject: party.subject.clone() })
    }

    /// The most lines it could make.
    pub(super) fn makes_lines(&self) -> usize {
        match self.verb {
            OwnedVerb::Peek | OwnedVerb::Done(_) | OwnedVerb::Renew(_) => 0,
            _ => self.parties.len(),
        }
    }
}

impl From<&Operation<'_>> for OwnedOperation {
    fn from(operation: &Operation<'_>) -> Self {
        let parties = operation.parties.iter().map(|party| OwnedParty {
            policy: party.policy.clone(),
            subject: party.subject.clone(),
            cost: party.cost.clone(),
        });
        Self { parties: parties.collect(), verb: operation.verb.into() }
    }
}

impl OwnedParty {
    fn lend(&self) -> Party<'_> {
        Party { policy: &self.policy, subject: &self.subject, cost: &self.cost }
    }
}

impl From<Verb<'_>> for OwnedVerb {
    fn from(verb: Verb<'_>) -> Self {
        match verb {
            Verb::Take(terms) => Self::Take(terms.into()),
            Verb::Begin(booking, terms) => Self::Begin(booking, terms.into()),
            Verb::Settle { booking, actual, remember } => {
                Self::Settle { booking, actual: actual.to_vec(), remember }
            }
            Verb::Return { booking, remember } => Self::Return { booking, remember },
            Verb::Done(permit) => Self::Done(permit),
            Verb::Renew(permit) => Self::Renew(permit),
            Verb::Peek => Self::Peek,
            Verb::Reset => Self::Reset,
        }
    }
}

impl OwnedVerb {
    fn lend(&self) -> Verb<'_> {
        match self {
            Self::Take(terms) => Verb::Take(terms.lend()),
            Self::Begin(booking, terms) => Verb::Begin(*booking, terms.lend()),
            Self::Settle { booking, actual, remember } => {
                Verb::Settle { booking: *booking, actual, remember: *remember }
            }
            Self::Return { booking, remember } => Verb::Return { booking: *booking, remember: *remember },
            Self::Done(permit) => Verb::Done(*permit),
            Self::Renew(permit) => Verb::Renew(*permit),
            Self::Peek => Verb::Peek,
            Self::Reset => Verb::Reset,
        }
    }
}

impl From<Terms<'_>> for OwnedTerms {
    fn from(terms: Terms<'_>) -> Self {
        let Terms { permit, max_wait, call, readings } = terms;
        Self { permit, max_wait, call: call.cloned(), readings }
    }
}

impl OwnedTerms {
    fn lend(&self) -> Terms<'_> {
        let Self { permit, max_wait, call, readings } = self;
        Terms { permit: *permit, max_wait: *max_wait, call: call.as_ref(), readings: *readings }
    }
}
