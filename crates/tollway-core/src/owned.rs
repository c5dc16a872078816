//! Operations that own what they name: for stores that answer later, and for tests that keep and repeat them.

use std::fmt;

use crate::store::{Booking, Operation, Party, Terms, Verb};
use crate::{CallId, Cost, LineKey, PermitId, Policy, Span, Subject};

/// An [`Operation`] of its own.
#[derive(Clone, Debug)]
pub struct OwnedOperation {
    /// Whose lines.
    pub parties: Vec<OwnedParty>,
    /// What to do.
    pub verb: OwnedVerb,
}

/// A [`Party`] of its own.
#[derive(Clone, Debug)]
pub struct OwnedParty {
    /// The policy.
    pub policy: Policy,
    /// The subject.
    pub subject: Subject,
    /// The cost under this policy.
    pub cost: Cost,
}

/// A [`Verb`] of its own.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the verb of the same name")]
pub enum OwnedVerb {
    Take(OwnedTerms),
    Preview(OwnedTerms),
    Begin(Booking, OwnedTerms),
    Settle { booking: Booking, actual: Vec<Cost>, remember: bool },
    Return { booking: Booking, remember: bool },
    Done(PermitId),
    Renew(PermitId),
    Peek,
    Reset,
}

/// [`Terms`] of their own.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "each is the term of the same name")]
pub struct OwnedTerms {
    pub permit: PermitId,
    pub max_wait: Span,
    pub call: Option<CallId>,
    pub readings: bool,
}

impl OwnedOperation {
    /// Lends it as the operation it was made from.
    pub fn lend<T>(&self, serve: impl FnOnce(&Operation<'_>) -> T) -> T {
        let parties: Vec<Party<'_>> = self.parties.iter().map(OwnedParty::lend).collect();
        serve(&Operation { parties: &parties, verb: self.verb.lend() })
    }

    /// The keys of the lines it names.
    pub fn keys(&self) -> impl Iterator<Item = LineKey> {
        self.parties
            .iter()
            .map(|party| LineKey { policy: party.policy.name().clone(), subject: party.subject.clone() })
    }

    /// The most lines it could make.
    pub fn makes_lines(&self) -> usize {
        match self.verb {
            OwnedVerb::Preview(_) | OwnedVerb::Peek | OwnedVerb::Done(_) | OwnedVerb::Renew(_) => 0,
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
            Verb::Preview(terms) => Self::Preview(terms.into()),
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
            Self::Preview(terms) => Verb::Preview(terms.lend()),
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

/// For the story of a test that failed.
impl fmt::Display for OwnedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verb {
            OwnedVerb::Take(terms) => {
                write!(f, "take {} max_wait {} call {:?}", terms.permit.0, terms.max_wait, terms.call)?;
            }
            OwnedVerb::Begin(booking, terms) => write!(f, "begin {booking:?} as {}", terms.permit.0)?,
            OwnedVerb::Settle { booking, actual, remember } => {
                let actual: Vec<&[u64]> = actual.iter().map(Cost::amounts).collect();
                write!(f, "settle {booking:?} to {actual:?} remember {remember}")?;
            }
            other => write!(f, "{other:?}")?,
        }
        for OwnedParty { policy, subject, cost } in &self.parties {
            let limits: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
            let shadow = if policy.shadow() { " shadow" } else { "" };
            let (name, edge, amounts) = (policy.name(), policy.edge(), cost.amounts());
            write!(f, "\n    {name}{shadow} {limits:?} edge {edge} for {:?}: {amounts:?}", subject.as_str())?;
        }
        Ok(())
    }
}
