//! The store that all processes share.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tollway::{Clock, Policy, Store, Subject};
use tollway_core::{Action, Answer, Charge, Operation, Outcome, Outcomes};
use tollway_memory::MemoryStore;

/// The memory store behind the network, and what it was asked.
pub(crate) struct CentralStore {
    memory: MemoryStore,
    calls: AtomicU64,
    /// The processes that registered. A simulation is shorter than the minute for which a real store counts them.
    registered: Mutex<HashSet<usize>>,
}

impl CentralStore {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            memory: MemoryStore::with_capacity(1_000, clock),
            calls: 0.into(),
            registered: Mutex::default(),
        }
    }

    /// One call: operations that arrive in one message.
    pub(crate) fn apply(&self, operations: &[Operation]) -> Outcomes {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.answer(operations)
    }

    /// How many calls it was sent.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// What it counts as used in the window that runs now. Not a call of the simulation.
    pub(crate) fn used(&self, policy: &Arc<Policy>) -> u64 {
        let charge = Charge::new(Arc::clone(policy), Subject::SHARED);
        match self.answer(&[Operation::one(charge, Action::Peek)]).pop() {
            Some(Outcome::Peeked(charges)) => charges[0].readings[0].used,
            other => panic!("a peek is answered with readings, not {other:?}"),
        }
    }

    /// How many processes registered before, and perhaps this one as well.
    pub(crate) fn follow(&self, process: usize, registers: bool) -> Option<NonZeroU32> {
        let mut registered = self.registered.lock().unwrap();
        if registers {
            registered.insert(process);
        }
        NonZeroU32::new(u32::try_from(registered.len()).expect("fewer processes than that"))
    }

    fn answer(&self, operations: &[Operation]) -> Outcomes {
        match self.memory.apply(operations) {
            Answer::Now(Some(Ok(outcomes))) => outcomes,
            _ => panic!("the memory store answers at once"),
        }
    }
}
