//! The nodes of a Cluster as parts of the store: which node keeps an account, and which account a node keeps.

use std::sync::Arc;

use tollway_core::{AccountKey, Name, Part, Subject};

use crate::cluster::{Cluster, slot};
use crate::keys::Keys;
use crate::node::Node;

/// How many subjects are tried until one lies on a node: by then each slot was met.
const SUBJECTS_MAX: u32 = 300_000;

/// The nodes of a Cluster that have keys.
#[derive(Clone)]
pub(crate) struct NodeParts {
    cluster: Arc<Cluster>,
    keys: Keys,
}

impl NodeParts {
    pub(crate) fn new(cluster: Arc<Cluster>, keys: Keys) -> Self {
        Self { cluster, keys }
    }

    /// The node of an account. Until the first call has asked, no slot is known, and the Cluster is one part.
    pub(crate) fn part_of(&self, account: &AccountKey) -> Part {
        self.node_of(account).map_or(Part::WHOLE, |node| Part::named(Arc::clone(node.name())))
    }

    fn node_of(&self, account: &AccountKey) -> Option<Arc<Node>> {
        self.cluster.known_node_of(slot::of_key(&self.keys.account(account)))
    }

    /// A subject on this node; none if it has no slots.
    pub(crate) fn subject_on(&self, part: &Part) -> Option<Subject> {
        let Some(name) = part.name() else {
            return self.cluster.nodes().is_empty().then_some(Subject::SHARED);
        };
        if !self.cluster.has_slots(name) {
            return None;
        }
        let policy = Name::new("tollway.probe").ok()?;
        let tried = if self.keys.in_one_slot() { 1 } else { SUBJECTS_MAX };
        let subjects = (0..tried).filter_map(|number| Subject::new(&number.to_string()).ok());
        let mut accounts = subjects.map(|subject| AccountKey { policy: policy.clone(), subject });
        let account =
            accounts.find(|account| self.node_of(account).is_some_and(|node| **node.name() == *name));
        account.map(|account| account.subject)
    }
}
