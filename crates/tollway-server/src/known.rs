//! Policies that a worker has looked up: found by name without touching anything that other workers write to.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tollway::{Policy, PolicyHandle, TakeError};
use tollway_inbound::headers::HeaderChoice;

use crate::rules::Rules;
use crate::server::Shared;

/// A policy with all that its answers need.
pub(crate) struct Known {
    pub(crate) handle: PolicyHandle,
    pub(crate) policy: Arc<Policy>,
    pub(crate) headers: HeaderChoice,
}

/// The policies that a worker has looked up since the config last changed. No more than the config has.
#[derive(Default)]
pub(crate) struct KnownPolicies(RefCell<Looked>);

#[derive(Default)]
struct Looked {
    generation: u64,
    rules: Option<Arc<Rules>>,
    by_name: HashMap<String, Rc<Known>>,
}

impl KnownPolicies {
    /// The policy of this name, as it is in force now.
    pub(crate) fn find(&self, shared: &Shared, name: &str) -> Result<Rc<Known>, TakeError> {
        let mut looked = self.0.borrow_mut();
        looked.forget_if_changed(shared);
        if let Some(known) = looked.by_name.get(name) {
            return Ok(Rc::clone(known));
        }
        let handle = shared.limiter.policy(name)?;
        let (policy, headers) = (handle.policy(), shared.rules().headers_of(name));
        let known = Rc::new(Known { handle, policy, headers });
        looked.by_name.insert(name.to_owned(), Rc::clone(&known));
        Ok(known)
    }
}

impl Looked {
    fn forget_if_changed(&mut self, shared: &Shared) {
        let (generation, rules) = (shared.limiter.generation(), shared.rules());
        let same_rules = self.rules.as_ref().is_some_and(|known| Arc::ptr_eq(known, &rules));
        if self.generation != generation || !same_rules {
            self.by_name.clear();
            (self.generation, self.rules) = (generation, Some(Arc::clone(&rules)));
        }
    }
}
