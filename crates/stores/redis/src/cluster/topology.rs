//! Which node has which slot.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::slot::SLOTS;
use crate::cluster::slot_ranges::{Host, SlotRange};
use crate::node::{Node, name_of};

/// How many nodes are kept: Redis Cluster is made for a thousand.
const NODES_MAX: usize = 2_048;

/// The nodes of a Cluster that have slots, as far as they are known.
#[derive(Clone, Default)]
pub(crate) struct Topology {
    /// For each slot the index of its node.
    owners: Vec<Option<u16>>,
    nodes: Vec<Arc<Node>>,
    /// Every node that can be asked where the slots are, replicas last.
    hosts: Vec<Host>,
}

impl Topology {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes that have slots.
    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Where to ask for the slots.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        self.hosts.clone()
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| **node.name() == *name)
    }

    /// The node that has this slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let index = (*self.owners.get(usize::from(slot))?)?;
        self.nodes.get(usize::from(index))
    }

    pub(crate) fn has_slots(&self, name: &str) -> bool {
        let index = self.nodes.iter().position(|node| **node.name() == *name);
        let index = index.and_then(|index| u16::try_from(index).ok());
        index.is_some() && self.owners.contains(&index)
    }

    /// The slot has moved to this node.
    pub(crate) fn move_slot(&mut self, slot: u16, node: Arc<Node>) {
        let index = self.index_of(node);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = index;
        }
    }

    /// Keeps a node that gets its first slot now, until the slots are asked again.
    pub(crate) fn add(&mut self, node: Arc<Node>) {
        let _ = self.index_of(node);
    }

    /// What these ranges say. Nodes that are known keep their connections.
    pub(crate) fn after(&self, ranges: &[SlotRange], new: impl Fn(&Host) -> Option<Arc<Node>>) -> Self {
        let known: HashMap<&str, &Arc<Node>> = self.nodes.iter().map(|node| (&**node.name(), node)).collect();
        let mut next = Self { owners: vec![None; usize::from(SLOTS)], ..Self::default() };
        for range in ranges {
            let node = known.get(&*name_of(&range.primary)).map(|node| Arc::clone(node));
            let Some(node) = node.or_else(|| new(&range.primary)) else { continue };
            let index = next.index_of(node);
            let owners = next.owners.iter_mut().take(usize::from(range.last).saturating_add(1));
            owners.skip(range.first.into()).for_each(|owner| *owner = index);
        }
        let hosts = ranges.iter().map(|range| &range.primary);
        for host in hosts.chain(ranges.iter().flat_map(|range| &range.replicas)) {
            if next.hosts.len() < NODES_MAX && !next.hosts.contains(host) {
                next.hosts.push(host.clone());
            }
        }
        next
    }

    /// The index of a node, which is added if it is new.
    fn index_of(&mut self, node: Arc<Node>) -> Option<u16> {
        let known = self.nodes.iter().position(|known| known.name() == node.name());
        let index = known.unwrap_or(self.nodes.len());
        if known.is_none() && index < NODES_MAX {
            self.nodes.push(node);
        }
        (index < NODES_MAX).then(|| u16::try_from(index).ok()).flatten()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::address::Address;

    fn node(host: &Host) -> Option<Arc<Node>> {
        let address = Address::parse("redis+cluster://a").unwrap();
        Node::at(host, &address, Duration::from_secs(1)).ok().map(Arc::new)
    }

    fn range(first: u16, last: u16, primary: u16) -> SlotRange {
        SlotRange {
            first,
            last,
            primary: ("h".to_owned(), primary),
            replicas: vec![("r".to_owned(), primary)],
        }
    }

    fn owner(topology: &Topology, slot: u16) -> Option<&str> {
        topology.owner(slot).map(|node| &**node.name())
    }

    #[test]
    fn slots_move_and_nodes_that_left_are_forgotten() {
        let none = Topology::default();
        assert!(none.is_empty() && none.owner(0).is_none());
        let first = none.after(&[range(0, 99, 1), range(100, 16_383, 2)], node);
        assert_eq!((owner(&first, 99), owner(&first, 100)), (Some("h:1"), Some("h:2")));
        assert_eq!(first.hosts().len(), 4, "replicas can be asked, too");

        let mut moved = first.clone();
        moved.move_slot(99, node(&("h".to_owned(), 3)).unwrap());
        assert_eq!((owner(&moved, 98), owner(&moved, 99)), (Some("h:1"), Some("h:3")));

        let next = moved.after(&[range(0, 16_383, 2)], node);
        assert!(
            Arc::ptr_eq(next.node("h:2").unwrap(), first.node("h:2").unwrap()),
            "it keeps its connection"
        );
        assert_eq!(next.nodes().len(), 1);
        assert!(next.has_slots("h:2") && !next.has_slots("h:1"));
    }
}
