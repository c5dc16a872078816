//! The nodes of a Cluster as parts of the store: which node keeps an account, and which account a node keeps.

use std::sync::Arc;

use tollway_core::{Charge, Part, Policy, Subject};

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
    pub(crate) fn part_of(&self, charge: &Charge) -> Part {
        self.node_of(charge).map_or(Part::WHOLE, |node| Part::named(Arc::clone(node.name())))
    }

    fn node_of(&self, charge: &Charge) -> Option<Arc<Node>> {
        self.cluster.known_node_of(slot::of_key(&self.keys.account(charge)))
    }

    /// A subject on this node; none if it has no slots.
    pub(crate) fn subject_on(&self, part: &Part) -> Option<Subject> {
        let Some(name) = part.name() else {
            return self.cluster.nodes().is_empty().then_some(Subject::SHARED);
        };
        if !self.cluster.has_slots(name) {
            return None;
        }
        let policy = Arc::new(Policy::new("tollway.probe", ["1 / second"]).ok()?);
        let tried = if self.keys.in_one_slot() { 1 } else { SUBJECTS_MAX };
        let subjects = (0..tried).filter_map(|number| Subject::new(&number.to_string()).ok());
        let mut charges = subjects.map(|subject| Charge::new(Arc::clone(&policy), subject));
        let charge = charges.find(|charge| self.node_of(charge).is_some_and(|node| **node.name() == *name));
        charge.map(|charge| charge.subject)
    }
}
