//! An operation that owns its parts, so that tests can keep, repeat and print it.

use std::fmt;

use tollway_core::{Booking, CallId, Cost, Operation, Party, PermitId, Policy, Span, Subject, Terms, Verb};

/// A party that owns its parts.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) policy: Policy,
    pub(crate) subject: Subject,
    pub(crate) cost: Cost,
}

/// An operation that owns its parts.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) sides: Vec<Side>,
    pub(crate) what: What,
}

/// A verb that owns its parts.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Take(Wish),
    Begin(Booking, Wish),
    Settle { booking: Booking, actual: Vec<Cost>, remember: bool },
    Return { booking: Booking, remember: bool },
    Done(PermitId),
    Renew(PermitId),
    Peek,
    Reset,
}

/// Terms that own their parts.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) permit: PermitId,
    pub(crate) max_wait: Span,
    pub(crate) call: Option<CallId>,
    pub(crate) readings: bool,
}

impl Wish {
    fn terms(&self) -> Terms<'_> {
        let Self { permit, max_wait, call, readings } = self;
        Terms { permit: *permit, max_wait: *max_wait, call: call.as_ref(), readings: *readings }
    }
}

impl Deed {
    /// Lends the operation.
    pub(crate) fn lend<R>(&self, use_it: impl FnOnce(&Operation<'_>) -> R) -> R {
        let parties: Vec<Party<'_>> = self
            .sides
            .iter()
            .map(|side| Party { policy: &side.policy, subject: &side.subject, cost: &side.cost })
            .collect();
        let verb = match &self.what {
            What::Take(wish) => Verb::Take(wish.terms()),
            What::Begin(booking, wish) => Verb::Begin(*booking, wish.terms()),
            What::Settle { booking, actual, remember } => {
                Verb::Settle { booking: *booking, actual, remember: *remember }
            }
            What::Return { booking, remember } => Verb::Return { booking: *booking, remember: *remember },
            What::Done(permit) => Verb::Done(*permit),
            What::Renew(permit) => Verb::Renew(*permit),
            What::Peek => Verb::Peek,
            What::Reset => Verb::Reset,
        };
        use_it(&Operation { parties: &parties, verb })
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Take(wish) => {
                write!(f, "take {} max_wait {} call {:?}", wish.permit.0, wish.max_wait, wish.call)?
            }
            What::Begin(booking, wish) => write!(f, "begin {booking:?} as {}", wish.permit.0)?,
            What::Settle { booking, actual, remember } => {
                let actual: Vec<&[u64]> = actual.iter().map(Cost::amounts).collect();
                write!(f, "settle {booking:?} to {actual:?} remember {remember}")?;
            }
            other => write!(f, "{other:?}")?,
        }
        for Side { policy, subject, cost } in &self.sides {
            let limits: Vec<String> = policy.limits().iter().map(ToString::to_string).collect();
            let shadow = if policy.shadow() { " shadow" } else { "" };
            let (name, edge, amounts) = (policy.name(), policy.edge(), cost.amounts());
            write!(f, "\n    {name}{shadow} {limits:?} edge {edge} for {:?}: {amounts:?}", subject.as_str())?;
        }
        Ok(())
    }
}
