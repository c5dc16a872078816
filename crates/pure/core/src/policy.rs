//! A policy: a named list of limits and how they behave together.

use std::num::NonZeroU64;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounds::{LIMITS_PER_POLICY_MAX, WAIT_DEFAULT, WAIT_MAX};
use crate::fingerprint::Fingerprint;
use crate::policy_fields::PolicyFields;
use crate::{ClusterSlot, Cost, Limit, LimitTextError, LocalShare, Name, NameError, Span};

/// What to do while the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WhenStoreFails {
    /// Grant the take.
    Open,
    /// Each process enforces its share of every limit by itself.
    #[default]
    Local,
    /// Fail the take.
    Closed,
}

/// Whether a process leases units from the store and spends them locally.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lease {
    /// Every take asks the store.
    #[default]
    Off,
    /// Where every limit is a window.
    On,
    /// The same, where the store is not in this process.
    Auto,
}

/// Instead of a unit's index: the limit takes one slot, whatever the cost.
const ONE_PER_CALL: usize = usize::MAX;

/// A named list of limits with its behaviour.
///
/// A policy that exists is valid: at least one limit, at most 16, no two under one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PolicyFields", into = "PolicyFields")]
pub struct Policy {
    key: Arc<PolicyKey>,
    // Shared: a take to a remote store clones its policy.
    limits: Arc<[Limit]>,
    units: Arc<[Name]>,
    /// For each limit, the index of its unit, or [`ONE_PER_CALL`].
    unit_of: Arc<[usize]>,
    default_cost: Cost,
    may_book: bool,
    holds_slots: bool,
    max_wait: Span,
    edge: Span,
    shadow: bool,
    forgets: bool,
    when_store_fails: WhenStoreFails,
    local_share: LocalShare,
    lease: Lease,
    subjects_max: Option<NonZeroU64>,
    cluster_slot: ClusterSlot,
}

/// The name of a policy as the first part of its accounts' keys: shared by all of them and hashed once.
/// Two keys are equal if their names are.
#[derive(Debug)]
pub struct PolicyKey {
    name: Name,
    hash: u64,
    /// The [`Limit::identity`] of each limit, in order.
    identities: Box<[u32]>,
}

impl PartialEq for PolicyKey {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PolicyKey {}

impl PolicyKey {
    /// The policy's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// A hash of the name, the same in every process. Mix it with a seeded hash of the subject.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many limits the policy has.
    #[inline]
    pub fn limits(&self) -> usize {
        self.identities.len()
    }

    pub(crate) fn identities(&self) -> &[u32] {
        &self.identities
    }

    /// Whether an account under this key has the meters of `policy`.
    #[inline]
    pub(crate) fn has_limits_of(&self, policy: &Policy) -> bool {
        std::ptr::eq(self, Arc::as_ptr(&policy.key)) || self.identities == policy.key.identities
    }
}

/// Why limits do not make a policy.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The policy's name is invalid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A limit's text is invalid.
    #[error(transparent)]
    Limit(#[from] LimitTextError),
    /// No limits.
    #[error("policy {0} has no limits")]
    Empty(Name),
    /// Too many limits.
    #[error("policy {0} has {1} limits, more than the {LIMITS_PER_POLICY_MAX} allowed")]
    TooManyLimits(Name, usize),
    /// Two limits under one name.
    #[error(
        "policy {policy} has two limits named {limit}; give one another name, as in `other: 200 requests / minute`"
    )]
    SameName {
        /// The policy.
        policy: Name,
        /// The duplicate name.
        limit: Name,
    },
    /// A wait above [`WAIT_MAX`].
    #[error("policy {0}: a wait of {1} is more than the {WAIT_MAX} allowed")]
    WaitTooLong(Name, Span),
}

crate::debug_as_display!(PolicyError);

impl Policy {
    /// A policy of limits written as text, with default behaviour.
    ///
    /// ```
    /// let adobe = tollway_core::Policy::new("adobe", ["200 requests / minute"])?;
    /// assert_eq!(adobe.limits().len(), 1);
    /// # Ok::<(), tollway_core::PolicyError>(())
    /// ```
    pub fn new<'a>(name: &str, limits: impl IntoIterator<Item = &'a str>) -> Result<Self, PolicyError> {
        let limits: Result<Vec<Limit>, LimitTextError> = limits.into_iter().map(str::parse).collect();
        Self::of_limits(Name::new(name)?, limits?)
    }

    /// A policy of these limits, with default behaviour.
    pub fn of_limits(name: Name, limits: Vec<Limit>) -> Result<Self, PolicyError> {
        check_limits(&name, &limits)?;
        let mut units: Vec<Name> = Vec::new();
        let mut unit_of = Vec::with_capacity(limits.len());
        for limit in &limits {
            if limit.counts_calls() {
                unit_of.push(ONE_PER_CALL);
                continue;
            }
            let known = units.iter().position(|unit| unit == limit.unit());
            unit_of.push(known.unwrap_or(units.len()));
            if known.is_none() {
                units.push(limit.unit().clone());
            }
        }
        let holds_slots = limits.iter().any(Limit::has_slots);
        let may_book = limits.iter().all(Limit::books_ahead);
        let hash = Fingerprint::new().text(name.as_str()).finish();
        let identities = limits.iter().map(Limit::identity).collect();
        Ok(Self {
            key: Arc::new(PolicyKey { name, hash, identities }),
            default_cost: Cost::of_one_request(&units),
            limits: limits.into(),
            units: units.into(),
            unit_of: unit_of.into(),
            may_book,
            holds_slots,
            max_wait: WAIT_DEFAULT,
            edge: Span::ZERO,
            shadow: false,
            forgets: false,
            when_store_fails: WhenStoreFails::default(),
            local_share: LocalShare::default(),
            lease: Lease::default(),
            subjects_max: None,
            cluster_slot: ClusterSlot::default(),
        })
    }

    /// With this longest wait.
    pub fn with_max_wait(mut self, max_wait: Span) -> Result<Self, PolicyError> {
        if max_wait > WAIT_MAX {
            return Err(PolicyError::WaitTooLong(self.name().clone(), max_wait));
        }
        self.max_wait = max_wait;
        Ok(self)
    }

    /// With this edge: aligned windows grant nothing in their first and last `edge`.
    #[must_use]
    pub fn with_edge(mut self, edge: Span) -> Self {
        self.edge = edge;
        self
    }

    /// As a shadow: decided and reported, never enforced.
    #[must_use]
    pub fn with_shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Whether the next grant deletes the meters of removed limits. By default they are kept until they expire, so that
    /// a limit that comes back has lost nothing.
    #[must_use]
    pub fn with_forgetting(mut self, forgets: bool) -> Self {
        self.forgets = forgets;
        self
    }

    /// With this behaviour while the store does not answer.
    #[must_use]
    pub fn with_when_store_fails(mut self, mode: WhenStoreFails) -> Self {
        self.when_store_fails = mode;
        self
    }

    /// With this share of every limit for each process while the store does not answer ([`WhenStoreFails::Local`]).
    #[must_use]
    pub fn with_local_share(mut self, share: LocalShare) -> Self {
        self.local_share = share;
        self
    }

    /// With or without leases.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// With a bound on the accounts that each process makes: at most so many in the longest period of the limits, beyond which
    /// new subjects share accounts. Only a store that heeds it has the bound
    /// ([`Store::heeds_new_accounts`](crate::Store::heeds_new_accounts)).
    #[must_use]
    pub fn with_subjects_max(mut self, most: Option<NonZeroU64>) -> Self {
        self.subjects_max = most;
        self
    }

    /// With its accounts in this slot of a store that is divided into slots. Accounts are not moved: in another slot, each
    /// subject starts with nothing used.
    #[must_use]
    pub fn with_cluster_slot(mut self, slot: ClusterSlot) -> Self {
        self.cluster_slot = slot;
        self
    }

    /// The same policy with another set of limits.
    pub fn with_limits(&self, limits: Vec<Limit>) -> Result<Self, PolicyError> {
        let made = Self::of_limits(self.name().clone(), limits)?;
        Ok(Self {
            max_wait: self.max_wait,
            edge: self.edge,
            shadow: self.shadow,
            forgets: self.forgets,
            when_store_fails: self.when_store_fails,
            local_share: self.local_share,
            lease: self.lease,
            subjects_max: self.subjects_max,
            cluster_slot: self.cluster_slot.clone(),
            ..made
        })
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.key.name
    }

    /// Its name as the first part of its accounts' keys.
    pub fn key(&self) -> &Arc<PolicyKey> {
        &self.key
    }

    /// Its limits, in the order given.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The units its limits count, each once.
    pub fn units(&self) -> &[Name] {
        &self.units
    }

    /// The cost of a take without a cost: one request.
    pub fn default_cost(&self) -> &Cost {
        &self.default_cost
    }

    /// Whether a take may be granted for a later time: not with `sliding` or `concurrency`.
    pub fn may_book(&self) -> bool {
        self.may_book
    }

    /// Whether a permit holds slots that `done` frees.
    pub fn holds_slots(&self) -> bool {
        self.holds_slots
    }

    /// The longest wait it allows.
    pub fn max_wait(&self) -> Span {
        self.max_wait
    }

    /// Its edge.
    pub fn edge(&self) -> Span {
        self.edge
    }

    /// Whether it is a shadow: decided and reported, never enforced.
    pub fn shadow(&self) -> bool {
        self.shadow
    }

    /// Whether the next grant deletes the meters of removed limits.
    pub fn forgets(&self) -> bool {
        self.forgets
    }

    /// What it does while the store does not answer.
    pub fn when_store_fails(&self) -> WhenStoreFails {
        self.when_store_fails
    }

    /// Whether leases are requested. [`Policy::leases`] says whether its limits allow them.
    pub fn lease(&self) -> Lease {
        self.lease
    }

    /// Whether its units may be leased: leases are on, and every limit is a window.
    pub fn leases(&self) -> bool {
        self.lease != Lease::Off && !self.shadow && self.limits.iter().all(Limit::is_window)
    }

    /// The share of every limit that a process enforces by itself while the store does not answer.
    pub fn local_share(&self) -> LocalShare {
        self.local_share
    }

    /// The most accounts that a process makes in the longest period of its limits, if that is bounded.
    pub fn subjects_max(&self) -> Option<NonZeroU64> {
        self.subjects_max
    }

    /// What chooses the slot of its accounts in a store that is divided into slots.
    pub fn cluster_slot(&self) -> &ClusterSlot {
        &self.cluster_slot
    }

    /// The only limit and the amount `cost` takes from it, if there is only one.
    #[inline]
    pub(crate) fn only_amount(&self, cost: &Cost) -> Option<(&Limit, u64)> {
        match &*self.limits {
            [limit] if limit.counts_calls() => Some((limit, 1)),
            // One limit counts one unit.
            [limit] => Some((limit, cost.of(0))),
            _ => None,
        }
    }

    /// Each limit with the amount `cost` takes from it: one of a limit that counts calls, else the amount of its unit.
    pub fn amounts<'a>(&'a self, cost: &'a Cost) -> impl Iterator<Item = (&'a Limit, u64)> {
        let amounts = cost.amounts();
        self.limits.iter().zip(&*self.unit_of).map(|(limit, unit)| {
            // `ONE_PER_CALL` is beyond every cost's units, so `get` returns none for it.
            let amount = amounts.get(*unit).copied().unwrap_or(u64::from(*unit == ONE_PER_CALL));
            (limit, amount)
        })
    }
}

fn check_limits(name: &Name, limits: &[Limit]) -> Result<(), PolicyError> {
    if limits.is_empty() {
        return Err(PolicyError::Empty(name.clone()));
    }
    if limits.len() > LIMITS_PER_POLICY_MAX {
        return Err(PolicyError::TooManyLimits(name.clone(), limits.len()));
    }
    for (index, limit) in limits.iter().enumerate() {
        let same = |other: &Limit| other.name() == limit.name() || other.identity() == limit.identity();
        if limits.iter().skip(index.saturating_add(1)).any(same) {
            return Err(PolicyError::SameName { policy: name.clone(), limit: limit.name().clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_policies_cannot_be_built() {
        assert!(matches!(Policy::new("p", []), Err(PolicyError::Empty(_))));
        assert!(matches!(Policy::new("p", ["5 / minute", "9 / minute"]), Err(PolicyError::SameName { .. })));
        assert!(matches!(Policy::new("p q", ["5 / minute"]), Err(PolicyError::Name(_))));
        let many: Vec<String> = (0..17).map(|n| format!("l{n}: 5 / minute")).collect();
        assert!(matches!(
            Policy::new("p", many.iter().map(String::as_str)),
            Err(PolicyError::TooManyLimits(_, 17))
        ));
    }

    #[test]
    fn a_slot_is_one_whatever_the_cost() {
        let policy = Policy::new("p", ["5 concurrent", "100 tokens / minute"]).unwrap();
        let cost = policy.cost([("tokens", 40)]).unwrap();
        let amounts: Vec<u64> = policy.amounts(&cost).map(|(_, amount)| amount).collect();
        assert_eq!(amounts, [1, 40]);
    }
}
