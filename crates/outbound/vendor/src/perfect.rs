//! What a perfect client would get.

use std::collections::VecDeque;

use tollway_core::{Span, Timestamp};

use crate::{Random, Run, Terms, Vendor};

/// Steps in which the perfect client looks for room.
const STEPS: u64 = 400_000;

/// Calls that a client which knows the vendor's state gets accepted: it sends each call as soon as it fits, and none
/// before. Other clients on the key get what they ask for.
pub fn possible(terms: &Terms, run: &Run) -> u64 {
    let others = u128::from(terms.others) * u128::from(run.length.as_micros()) / 1_000_000_000_000;
    let left = greedy(terms, run, usize::MAX).saturating_sub(u64::try_from(others).unwrap_or(u64::MAX));
    greedy(terms, run, run.in_flight).min(left)
}

/// Calls accepted if no other client calls and at most so many are in flight.
fn greedy(terms: &Terms, run: &Run, in_flight: usize) -> u64 {
    let at_once = terms.concurrent.map_or(usize::MAX, |calls| usize::try_from(calls).unwrap_or(usize::MAX));
    let in_flight = in_flight.min(at_once);
    let mut vendor = Vendor::new(Terms { others: 0, ..terms.clone() }, run.seed);
    let mut random = Random::new(run.seed);
    let latency = Span::from_micros((terms.latency.0.as_micros() + terms.latency.1.as_micros()) / 2);
    let mut flying = VecDeque::new();
    let mut accepted = 0;
    let mut call = run.client.call(&mut random);
    for step in 0..STEPS {
        let now = Timestamp::from_micros(run.length.as_micros() / STEPS * step);
        while flying.front().is_some_and(|answered| *answered <= now) {
            flying.pop_front();
        }
        while flying.len() < in_flight && vendor.fits(now, call) {
            vendor.spend(now, call);
            call = run.client.call(&mut random);
            flying.push_back(now.plus(latency));
            accepted += 1;
        }
    }
    accepted
}
