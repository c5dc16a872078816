//! A library, ready to take.

use crate::keys::Keys;
use crate::work::Work;

/// Takes for the keys with these numbers; returns how many were granted.
pub(crate) type Worker = Box<dyn FnMut(&[u32]) -> usize + Send>;

/// A limiter with its limits, from which threads get a worker each.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    pub(crate) keys: Keys,
    hire: Box<dyn Fn() -> Worker>,
}

impl Contender {
    /// `hire` builds what one thread takes with. The loop over the visits is compiled around it, so a take needs no call
    /// through a pointer.
    pub(crate) fn new<T>(name: &'static str, work: Work, keys: &Keys, hire: impl Fn() -> T + 'static) -> Self
    where
        T: FnMut(&String) -> bool + Send + 'static,
    {
        let shared = keys.keys.clone();
        let hire = move || -> Worker {
            let keys = shared.clone();
            let mut take = hire();
            Box::new(move |visits| visits.iter().filter(|key| take(&keys[**key as usize])).count())
        };
        Self { name, work, keys: keys.clone(), hire: Box::new(hire) }
    }

    pub(crate) fn hire(&self) -> Worker {
        (self.hire)()
    }

    /// Visits every key, in numeric order, until it is in the state that the work wants. So the first keys in the shuffled
    /// order gain nothing.
    pub(crate) fn warm_up(self) -> Self {
        let everyone: Vec<u32> = (0u32..).take(self.keys.keys.len()).collect();
        let mut worker = self.hire();
        for _ in 0..self.work.visits_before() {
            worker(&everyone);
        }
        self
    }
}
