//! Limits set at run time: kept in the store, followed by every process that shares it.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tollway_core::{
    FollowedSettings, Limit, LimitError, LimitTextError, Name, Policy, Setting, SettingChange, Settings,
    StoreError, nearest,
};

use crate::policy::registry::Registry;
use crate::secret::is_secret;
use crate::{Limiter, Pending, TakeError};

/// How often the store of a busy limiter is polled for limits set by other processes.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// How often the settings may be read by all limiters together: a node of DynamoDB serves 3,000 reads of an item a second.
const READS_PER_SECOND_MAX: u32 = 1_000;

/// The longest time between two reads of a busy limiter, however many there are: changes are followed within ten seconds.
const FOLLOW_INTERVAL_MAX: Duration = Duration::from_secs(9);

/// The same for an idle limiter: each poll is a request that some stores bill.
const FOLLOW_INTERVAL_IDLE: Duration = Duration::from_secs(30);

/// Whether a limiter is in use, so that its settings must be up to date.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Since the settings were last polled.
    used: AtomicBool,
    wake: Notify,
}

impl Activity {
    /// The limiter is in use: an idle follower polls at once.
    pub(crate) fn note(&self) {
        if !self.used.load(Ordering::Relaxed) && !self.used.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    fn begin_poll(&self) {
        self.used.store(false, Ordering::Release);
    }

    async fn noted(&self) {
        while !self.used.load(Ordering::Acquire) {
            self.wake.notified().await;
        }
    }
}

/// Why a limit was not set.
#[derive(thiserror::Error)]
pub enum SetLimitError {
    /// No policy of that name, or the blocking call was made on a thread of an async runtime.
    #[error(transparent)]
    Policy(#[from] TakeError),
    /// The policy has no limit of that name.
    #[error("policy {policy} has no limit {limit:?}; {advice}")]
    UnknownLimit {
        /// The policy.
        policy: Name,
        /// The unknown name.
        limit: String,
        /// The name that may have been meant, or all there are.
        advice: String,
    },
    /// What it should be is not a limit.
    #[error(transparent)]
    Text(#[from] LimitTextError),
    /// Only amount and burst can be set: anything else would be another meter.
    #[error(
        "{to:?} would be another limit than {limit}: only its amount and burst can be set; change the config file instead"
    )]
    AnotherLimit {
        /// What it should be.
        to: String,
        /// What it is.
        limit: Box<Limit>,
    },
    /// The amount or burst is out of bounds.
    #[error(transparent)]
    Amount(#[from] LimitError),
    /// The store keeps no settings.
    #[error("this store keeps no limits; change the config file instead")]
    NotKept,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

tollway_core::debug_as_display!(SetLimitError);

impl Limiter {
    /// Sets a limit at run time for every process that shares the store. `to` is the new limit, or only its amount. Usage
    /// is kept, and the limit in the config file no longer applies. An amount of 0 stops the policy: nothing is granted until
    /// the limit is set again or cleared. Busy processes follow within about a second. An idle one reads settings every 30 s,
    /// and when its next take comes; that take, and others until the settings are read, may be decided under the old limit.
    ///
    /// ```
    /// let limiter = tollway::Limiter::builder().policy("adobe", ["200 requests / minute"])?.build();
    /// limiter.set_limit("adobe", "requests_per_minute", "250 requests / minute").now()?;
    /// assert_eq!(limiter.policies()[0].limits()[0].amount(), 250);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, policy: &str, limit: &str, to: &str) -> Pending<(), SetLimitError> {
        let change = self.find_limit(policy, limit).and_then(|(policy, limit)| {
            let amounts = Some(read_amounts(&limit, to)?);
            Ok(SettingChange { policy: policy.name().clone(), limit: limit.name().clone(), amounts })
        });
        self.change(change)
    }

    /// Puts the config file's limit in force again.
    pub fn clear_limit(&self, policy: &str, limit: &str) -> Pending<(), SetLimitError> {
        let change = self.find_limit(policy, limit).map(|(policy, limit)| SettingChange {
            policy: policy.name().clone(),
            limit: limit.name().clone(),
            amounts: None,
        });
        self.change(change)
    }

    /// The limits set in the store, as this process last read them.
    pub fn settings(&self) -> Vec<Setting> {
        self.registry().state().activity.note();
        self.registry().settings()
    }

    /// Whether a limit was set to 0, in the store or by its source: nothing is granted under its policy until that changes.
    pub fn is_stopped(&self, policy: &str, limit: &str) -> bool {
        self.registry().is_stopped(policy, limit)
    }

    /// Reads the limits set in the store now, instead of within about a second.
    pub fn follow_settings(&self) -> Pending<(), SetLimitError> {
        let registry = Arc::clone(self.registry());
        self.pending(async move { follow(&registry, false).await })
    }

    fn change(&self, change: Result<SettingChange, SetLimitError>) -> Pending<(), SetLimitError> {
        let registry = Arc::clone(self.registry());
        self.pending(async move {
            let changed = settings_store(&registry)?.change(change?);
            changed.await?;
            follow(&registry, false).await
        })
    }

    pub(crate) fn pending<T>(
        &self,
        future: impl Future<Output = Result<T, SetLimitError>> + Send + 'static,
    ) -> Pending<T, SetLimitError> {
        Pending::new(Some(Arc::clone(self.registry().state())), |_| future)
    }

    fn find_limit(&self, policy: &str, limit: &str) -> Result<(Arc<Policy>, Limit), SetLimitError> {
        let policy = Arc::clone(&self.find(policy)?.policy);
        let names = || policy.limits().iter().map(|limit| limit.name().as_str());
        match policy.limits().iter().find(|known| known.name().as_str() == limit) {
            Some(limit) => Ok((Arc::clone(&policy), limit.clone())),
            None => {
                let advice = match nearest(limit, names()) {
                    Some(meant) => format!("did you mean {meant:?}?"),
                    None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
                };
                let (policy, limit) = (policy.name().clone(), limit.chars().take(80).collect());
                Err(SetLimitError::UnknownLimit { policy, limit, advice })
            }
        }
    }
}

/// The amount and burst that `to` gives a limit: a whole limit that differs in nothing else, or only an amount.
fn read_amounts(limit: &Limit, to: &str) -> Result<(u64, Option<u64>), SetLimitError> {
    if let Ok(amount) = Limit::read_amount(to.trim()) {
        if amount > 0 {
            limit.with_amount(amount)?;
        }
        return Ok((amount, None));
    }
    let wanted = to.parse::<Limit>()?.named(limit.name().clone());
    let burst = wanted.burst();
    let set = limit.with_amounts(wanted.amount(), burst)?;
    if set != wanted {
        return Err(SetLimitError::AnotherLimit { to: to.to_owned(), limit: Box::new(limit.clone()) });
    }
    Ok((wanted.amount(), burst))
}

fn settings_store(registry: &Registry) -> Result<&dyn Settings, SetLimitError> {
    let state = registry.state();
    state.store.settings().filter(|_| !state.fixed_limits).ok_or(SetLimitError::NotKept)
}

/// Reads the settings. `registers` makes the limiter one that others count.
async fn follow(registry: &Registry, registers: bool) -> Result<(), SetLimitError> {
    let state = registry.state();
    let followed = settings_store(registry)?.follow(registers);
    let FollowedSettings { mut settings, limiters } = followed.await?;
    state.fallback.limiters.note(limiters);
    // The signing secret is kept among the settings, and is none.
    settings.retain(|setting| !is_secret(setting));
    registry.set(settings);
    Ok(())
}

/// Follows limits set by other processes until the last clone of the limiter is gone. After a failure it retries; meanwhile
/// the last good values stay in force.
pub(crate) fn follow_in_background(registry: &Arc<Registry>) {
    let state = registry.state();
    if state.in_process() || settings_store(registry).is_err() {
        return;
    }
    let (registry, activity) = (Arc::downgrade(registry), Arc::clone(&state.activity));
    state.timers.spawn_own(async move {
        // A short command ends before its limiter reads settings for the second time, and so does not register.
        let mut registers = false;
        loop {
            activity.begin_poll();
            if !poll_once(&registry, registers).await {
                return;
            }
            let interval = follow_interval(limiters(&registry), RandomState::new().hash_one(0));
            tokio::time::sleep(interval).await;
            // An idle limiter registers, too.
            if !std::mem::replace(&mut registers, true) {
                continue;
            }
            if !has_queued_takes(&registry) {
                let idle = FOLLOW_INTERVAL_IDLE.saturating_sub(interval);
                // In use, or idle for that long: the poll is due either way.
                let _ = tokio::time::timeout(idle, activity.noted()).await;
            }
        }
    });
}

/// How many limiters share the store, as it last said.
fn limiters(registry: &Weak<Registry>) -> Option<NonZeroU32> {
    registry.upgrade()?.state().fallback.limiters.known()
}

/// After how long a limiter in use reads the settings again: a second, or more where so many read them that they would be a load of
/// their own. Up to a tenth less, by `random`, so that limiters that started together do not stay together.
fn follow_interval(limiters: Option<NonZeroU32>, random: u64) -> Duration {
    let limiters = limiters.map_or(1, NonZeroU32::get);
    let spaced = FOLLOW_INTERVAL.saturating_mul(limiters) / READS_PER_SECOND_MAX;
    let interval = spaced.clamp(FOLLOW_INTERVAL, FOLLOW_INTERVAL_MAX);
    let jitter = interval.as_micros() / 10;
    let earlier = u128::from(random).checked_rem(jitter).unwrap_or(0);
    interval.saturating_sub(Duration::from_micros(u64::try_from(earlier).unwrap_or(0)))
}

/// A raised limit may end the wait of a queued take, which does not use the store meanwhile.
fn has_queued_takes(registry: &Weak<Registry>) -> bool {
    registry.upgrade().is_some_and(|registry| !registry.state().queues.is_empty())
}

/// Polls once. False if the limiter is gone.
async fn poll_once(registry: &Weak<Registry>, registers: bool) -> bool {
    let Some(registry) = registry.upgrade() else { return false };
    if let Err(error) = follow(&registry, registers).await {
        tracing::debug!(%error, "the limits that are set could not be read");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G7: ten thousand limiters read the settings about a thousand times a second, and follow a change within ten seconds.
    #[test]
    fn many_limiters_read_the_settings_less_often() {
        for (limiters, longest) in
            [(0, 1_000), (1, 1_000), (1_000, 1_000), (4_000, 4_000), (10_000, 9_000), (100_000, 9_000)]
        {
            let longest = Duration::from_millis(longest);
            for random in [0, 1, 12_345, u64::MAX] {
                let interval = follow_interval(NonZeroU32::new(limiters), random);
                assert!(interval <= longest && interval > longest * 9 / 10, "{limiters}: {interval:?}");
            }
        }
    }
}
