//! A worker's cache of policy lookups: a hit touches no memory that other workers write to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use tollway::{Policy, PolicyHandle, TakeError};
use tollway_inbound::CountedCharge;
use tollway_inbound::headers::HeaderChoice;

use crate::rules::Rules;
use crate::server::ServerState;

/// A policy that was looked up, with everything a response needs.
pub(crate) struct KnownPolicy {
    pub(crate) handle: PolicyHandle,
    pub(crate) policy: Arc<Policy>,
    pub(crate) headers: HeaderChoice,
}

impl KnownPolicy {
    /// A charge under it.
    pub(crate) fn charge<'a>(
        &'a self,
        subject: &'a str,
        amounts: SmallVec<[(&'a str, u64); 2]>,
    ) -> CountedCharge<'a> {
        let Self { handle, policy, headers } = self;
        CountedCharge { handle, policy, subject, amounts, headers: *headers }
    }
}

/// The policies that a worker has looked up since the config last changed. No more than the config has.
#[derive(Default)]
pub(crate) struct KnownPolicies(RefCell<LookedUp>);

#[derive(Default)]
struct LookedUp {
    generation: u64,
    rules: Option<Arc<Rules>>,
    by_name: HashMap<String, Rc<KnownPolicy>>,
}

impl KnownPolicies {
    /// The policy of this name, as it is in force now.
    pub(crate) fn find(&self, state: &ServerState, name: &str) -> Result<Rc<KnownPolicy>, TakeError> {
        let mut looked_up = self.0.borrow_mut();
        looked_up.forget_if_changed(state);
        if let Some(known) = looked_up.by_name.get(name) {
            return Ok(Rc::clone(known));
        }
        let handle = state.limiter.policy(name)?;
        let (policy, headers) = (handle.policy(), state.rules().headers_of(name));
        let known = Rc::new(KnownPolicy { handle, policy, headers });
        looked_up.by_name.insert(name.to_owned(), Rc::clone(&known));
        Ok(known)
    }
}

impl LookedUp {
    fn forget_if_changed(&mut self, state: &ServerState) {
        let (generation, rules) = (state.limiter.generation(), state.rules());
        let same_rules = self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules));
        if self.generation != generation || !same_rules {
            self.by_name.clear();
            (self.generation, self.rules) = (generation, Some(Arc::clone(&rules)));
        }
    }
}
