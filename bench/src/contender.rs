//! A library that is ready to take.

use crate::keys::Keys;

/// Takes for the keys with these numbers; how many were granted.
pub(crate) type Worker = Box<dyn FnMut(&[u32]) -> usize + Send>;

/// A limiter with its limits, from which threads get a worker each.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    hire: Box<dyn Fn() -> Worker>,
    keys: Keys,
}

impl Contender {
    /// `hire` makes what one thread takes with. The loop over the visits is compiled around it: no call through a
    /// pointer per take.
    pub(crate) fn new<T>(name: &'static str, keys: &Keys, hire: impl Fn() -> T + 'static) -> Self
    where
        T: FnMut(&String) -> bool + Send + 'static,
    {
        let shared = keys.keys.clone();
        let hire = move || -> Worker {
            let keys = shared.clone();
            let mut take = hire();
            Box::new(move |visits| visits.iter().filter(|key| take(&keys[**key as usize])).count())
        };
        Self { name, hire: Box::new(hire), keys: keys.clone() }
    }

    pub(crate) fn hire(&self) -> Worker {
        (self.hire)()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Visits every key, in the order of their numbers: those that come first in the shuffled order gain nothing.
    pub(crate) fn warm_up(self) -> Self {
        let everyone: Vec<u32> = (0u32..).take(self.keys.keys.len()).collect();
        self.hire()(&everyone);
        self
    }
}
