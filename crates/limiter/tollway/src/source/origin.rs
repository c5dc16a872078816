//! Where the amount of a limit in force comes from.

use tollway_core::Timestamp;

use crate::Limiter;

/// Where the amount of a limit in force comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The config file, or the program.
    Config,
    /// A source.
    Source {
        /// The source's name.
        title: String,
        /// When it was last read, by the limiter's clock.
        read_at: Timestamp,
    },
    /// The store: the limit was set there.
    Store {
        /// When, by the store's clock.
        set_at: Timestamp,
    },
}

impl Limiter {
    /// Where the amount of a limit in force comes from. An unknown limit counts as the config's.
    ///
    /// ```
    /// use tollway::{Limiter, source::Origin};
    ///
    /// let limiter = Limiter::builder().policy("adobe", ["200 requests / minute"])?.build();
    /// assert_eq!(limiter.origin("adobe", "requests_per_minute"), Origin::Config);
    /// limiter.set_limit("adobe", "requests_per_minute", "250").now()?;
    /// assert!(matches!(limiter.origin("adobe", "requests_per_minute"), Origin::Store { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn origin(&self, policy: &str, limit: &str) -> Origin {
        if let Some(set_at) = self.registry().set_at(policy, limit) {
            return Origin::Store { set_at };
        }
        let of_limit =
            |amounts: &[(tollway_core::Name, u64)]| amounts.iter().any(|(name, _)| name.as_str() == limit);
        match self.polled_sources().status_of(policy) {
            Some(source) if of_limit(&source.amounts) => {
                Origin::Source { title: source.title, read_at: source.read_at.unwrap_or_default() }
            }
            _ => Origin::Config,
        }
    }
}
