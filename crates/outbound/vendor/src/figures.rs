//! What a run gave.

use tollway_core::{Span, Timestamp};

use crate::{Terms, Unit};

/// How long a client must do well to have converged.
const STEADY: usize = 120;

/// Calls of a run, counted by the second in which the vendor decided them.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    accepted: Vec<u32>,
    refused: Vec<u32>,
    /// The longest time between two accepted calls, or from the last one to the end.
    pub longest_gap: Span,
    last_accepted: Timestamp,
}

impl Figures {
    pub(crate) fn new(length: Span) -> Self {
        let seconds = (length.as_micros() / 1_000_000 + 1) as usize;
        Self { accepted: vec![0; seconds], refused: vec![0; seconds], ..Self::default() }
    }

    pub(crate) fn count(&mut self, at: Timestamp, accepted: bool) {
        let second = (at.as_micros() / 1_000_000) as usize;
        let counts = if accepted { &mut self.accepted } else { &mut self.refused };
        if let Some(count) = counts.get_mut(second) {
            *count += 1;
        }
        if accepted {
            self.longest_gap = self.longest_gap.max(at.since(self.last_accepted));
            self.last_accepted = at;
        }
    }

    pub(crate) fn finish(&mut self, end: Timestamp) {
        self.longest_gap = self.longest_gap.max(end.since(self.last_accepted));
    }

    /// Accepted calls.
    pub fn accepted(&self) -> u64 {
        self.accepted.iter().copied().map(u64::from).sum()
    }

    /// Refused calls.
    pub fn refused(&self) -> u64 {
        self.refused.iter().copied().map(u64::from).sum()
    }

    /// Accepted and refused calls from one second up to, not including, another.
    pub fn between(&self, from: usize, to: usize) -> (u64, u64) {
        let sum = |counts: &[u32]| counts.iter().take(to).skip(from).copied().map(u64::from).sum();
        (sum(&self.accepted), sum(&self.refused))
    }

    /// The first second from which 120 s have at least 90 % of the limit's rate and at most 2 % refusals.
    pub fn converged(&self, terms: &Terms) -> Option<usize> {
        let last = self.accepted.len().checked_sub(STEADY)?;
        (0..last).find(|&from| {
            let sum =
                |counts: &[u32]| counts[from..from + STEADY].iter().copied().map(f64::from).sum::<f64>();
            let (accepted, refused) = (sum(&self.accepted), sum(&self.refused));
            let allowed: f64 = (from..from + STEADY).map(|second| allowed_in(terms, second)).sum();
            accepted >= 0.9 * allowed && refused <= 0.02 * accepted
        })
    }
}

fn allowed_in(terms: &Terms, second: usize) -> f64 {
    let at = Timestamp::from_secs(second as u64);
    let calls = terms.quotas.iter().filter(|quota| quota.unit == Unit::Calls);
    let rate = calls.map(|quota| quota.shape(at).rate()).min().unwrap_or(0);
    rate.saturating_sub(terms.others) as f64 / 1e6
}
