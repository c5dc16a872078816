//! How many charges a worker has in flight to the store.
//!
//! A store that is sent more than it can answer within its deadline counts as away for all callers. Takes beyond the budget
//! are denied instead: a proxy that lets requests through on an error must not take it for one.

use std::cell::Cell;
use std::rc::Rc;

/// The budget of all workers together. A Redis on one core decides a charge of a take under sixteen policies in some 15
/// microseconds, so this many in a sixteenth of a second. There are at most three times as many, which take less than half
/// of the store's default deadline.
const CHARGES_IN_FLIGHT_MAX: usize = 4_096;

/// The least budget of a worker: the largest take fits many times.
const CHARGES_PER_WORKER_MIN: usize = 256;

/// The budget of one worker.
pub(crate) struct ChargeBudget {
    most: usize,
    in_flight: Cell<usize>,
    /// The connections that have charges in flight.
    connections: Cell<usize>,
}

/// The charges that a connection has in flight.
pub(crate) type ConnectionCharges = Rc<Cell<usize>>;

/// Charges of a take in flight, until it is dropped.
pub(crate) struct ChargesInFlight {
    budget: Rc<ChargeBudget>,
    connection: ConnectionCharges,
    charges: usize,
}

impl ChargeBudget {
    /// The budget of one of this many workers.
    pub(crate) fn of_one(workers: usize) -> Self {
        let share = CHARGES_IN_FLIGHT_MAX.checked_div(workers).unwrap_or(CHARGES_IN_FLIGHT_MAX);
        Self::new(share.max(CHARGES_PER_WORKER_MIN))
    }

    fn new(most: usize) -> Self {
        Self { most, in_flight: Cell::new(0), connections: Cell::new(0) }
    }

    /// Room for a take of a connection with so many charges; `None` if there is none.
    pub(crate) fn admit(
        self: &Rc<Self>,
        connection: &ConnectionCharges,
        charges: usize,
    ) -> Option<ChargesInFlight> {
        let (in_all, own) = (self.in_flight.get().saturating_add(charges), connection.get());
        if !self.has_room(in_all, own, own.saturating_add(charges)) {
            return None;
        }
        self.in_flight.set(in_all);
        if own == 0 {
            self.connections.set(self.connections.get().saturating_add(1));
        }
        connection.set(own.saturating_add(charges));
        Some(ChargesInFlight { budget: Rc::clone(self), connection: Rc::clone(connection), charges })
    }

    /// Whether so many may be in flight, of a connection that has `own` of them and would have `wanted`. Beyond the budget, a
    /// connection may have an equal share of it, and beyond twice the budget the first take of a connection that has none:
    /// else those that came before would shut it out.
    fn has_room(&self, in_all: usize, own: usize, wanted: usize) -> bool {
        if in_all <= self.most {
            true
        } else if in_all <= self.most.saturating_mul(2) {
            wanted <= self.share(own == 0) || own == 0
        } else {
            own == 0 && in_all <= self.most.saturating_mul(3)
        }
    }

    fn share(&self, is_new: bool) -> usize {
        let connections = self.connections.get().saturating_add(usize::from(is_new));
        self.most.checked_div(connections).unwrap_or(self.most)
    }
}

impl Drop for ChargesInFlight {
    fn drop(&mut self) {
        let Self { budget, connection, charges } = self;
        budget.in_flight.set(budget.in_flight.get().saturating_sub(*charges));
        let own = connection.get().saturating_sub(*charges);
        connection.set(own);
        if own == 0 {
            budget.connections.set(budget.connections.get().saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_may_have_all_and_several_share() {
        let budget = Rc::new(ChargeBudget::new(64));
        let [greedy, honest, late] = [(); 3].map(|()| ConnectionCharges::default());
        let mut held: Vec<_> = (0..4).filter_map(|_| budget.admit(&greedy, 16)).collect();
        assert_eq!(held.len(), 4);
        assert!(budget.admit(&greedy, 1).is_none(), "it has all");
        let of_honest: Vec<_> = (0..40).filter_map(|_| budget.admit(&honest, 1)).collect();
        assert_eq!(of_honest.len(), 32, "half of it, although it is used up");
        assert!(budget.admit(&late, 16).is_some_and(|_| budget.admit(&late, 16).is_none()), "a third");
        held.pop();
        assert!(budget.admit(&greedy, 1).is_none(), "it is still above its share");
        drop((held, of_honest));
        assert_eq!((budget.in_flight.get(), budget.connections.get()), (0, 0));
        assert_eq!((0..9).filter_map(|_| budget.admit(&greedy, 16)).count(), 9, "each is dropped at once");
    }

    /// Whatever many connections do, what is in flight stays below three times the budget, and another one gets a take.
    #[test]
    fn many_greedy_connections_stay_below_three_times_the_budget() {
        let budget = Rc::new(ChargeBudget::new(1_000));
        let mut held = Vec::new();
        for connection in (0..100).map(|_| ConnectionCharges::default()) {
            held.extend((0..200).filter_map(|_| budget.admit(&connection, 7)));
        }
        assert!(budget.in_flight.get() < 2_700, "{}", budget.in_flight.get());
        assert!(budget.admit(&ConnectionCharges::default(), 16).is_some());
        for connection in (0..1_000).map(|_| ConnectionCharges::default()) {
            held.extend(budget.admit(&connection, 16));
        }
        assert!(budget.in_flight.get() <= 3_000, "{}", budget.in_flight.get());
    }
}
