//! What is ready to be sent to one part of the store, and what is on its way there.

use std::collections::VecDeque;

use tokio::time::Instant;
use tollway_core::Part;

use crate::Tag;

/// How many parts are remembered without anything to send to them.
const IDLE_MAX: usize = 1_024;

/// The lanes that go to one part.
#[derive(Debug)]
pub(crate) struct PartQueue {
    pub(crate) part: Part,
    /// Lanes that may have something to send. A lane may be listed twice; the second time it has nothing.
    pub(crate) ready: VecDeque<Tag>,
    /// Groups in flight.
    pub(crate) groups_out: usize,
    /// When the part last answered a call.
    pub(crate) answered_at: Option<Instant>,
}

/// One for each part that calls go to.
#[derive(Debug, Default)]
pub(crate) struct PartQueues(Vec<PartQueue>);

impl PartQueues {
    pub(crate) fn of(&mut self, part: &Part) -> &mut PartQueue {
        let known = self.0.iter().position(|queue| queue.part == *part);
        let index = known.unwrap_or_else(|| {
            if self.0.len() >= IDLE_MAX {
                self.0.retain(|queue| queue.groups_out > 0 || !queue.ready.is_empty());
            }
            let part = part.clone();
            self.0.push(PartQueue { part, ready: VecDeque::new(), groups_out: 0, answered_at: None });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// A part that has something to send, and fewer groups in flight than this.
    pub(crate) fn next_ready(&self, groups_max: usize) -> Option<Part> {
        let may_send = |queue: &&PartQueue| queue.groups_out < groups_max && !queue.ready.is_empty();
        self.0.iter().find(may_send).map(|queue| queue.part.clone())
    }
}
