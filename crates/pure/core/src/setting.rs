//! Settings: amounts of limits that were changed at run time. They override the config file.

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::bounds::SETTINGS_MAX;
use crate::store::{Fault, Retry, StoreError};
use crate::{Limit, LimitError, Name, Timestamp};

/// The setting of one limit of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The policy.
    pub policy: Name,
    /// The limit's name.
    pub limit: Name,
    /// The amount in force.
    pub amount: u64,
    /// A bucket's burst. `None`: the config's, or the amount if the config's burst is its amount.
    pub burst: Option<u64>,
    /// When it was set, by the store's clock.
    pub set_at: Timestamp,
}

/// What to do with the setting of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The policy.
    pub policy: Name,
    /// The limit's name.
    pub limit: Name,
    /// The amount and burst from now on. `None` removes the setting.
    pub amounts: Option<(u64, Option<u64>)>,
}

/// What a limiter reads while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedSettings {
    /// All settings.
    pub settings: Vec<Setting>,
    /// How many limiters share the store, at least this one. `None`: the store does not count them.
    pub limiters: Option<NonZeroU32>,
}

/// The future of a store's answer about settings.
pub type SettingsAnswer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Keeps settings. Most stores do, so that all processes that share the store use the same ones.
pub trait Settings: Send + Sync {
    /// All settings, at most [`SETTINGS_MAX`].
    fn settings(&self) -> SettingsAnswer<Vec<Setting>>;

    /// All settings, and how many limiters of the store read them within the last minute, this one included: a store that can
    /// counts them in the same request. `registers` makes it one that later readers count.
    fn follow(&self, registers: bool) -> SettingsAnswer<FollowedSettings> {
        let _ = registers;
        let settings = self.settings();
        Box::pin(async move { Ok(FollowedSettings { settings: settings.await?, limiters: None }) })
    }

    /// Changes one setting. It is stored before this answers.
    fn change(&self, change: SettingChange) -> SettingsAnswer<()>;
}

/// The settings of a store that keeps them as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingList(Vec<Setting>);

impl SettingList {
    /// A list of stored settings.
    pub fn new(settings: Vec<Setting>) -> Self {
        Self(settings)
    }

    /// All of them.
    pub fn all(&self) -> &[Setting] {
        &self.0
    }

    /// Changes one.
    pub fn change(&mut self, change: SettingChange, now: Timestamp) -> Result<(), StoreError> {
        let SettingChange { policy, limit, amounts } = change;
        let same = |setting: &Setting| setting.policy == policy && setting.limit == limit;
        match amounts {
            None => self.0.retain(|setting| !same(setting)),
            Some((amount, burst)) => {
                let known = self.0.iter().any(same);
                if !known && self.0.len() >= SETTINGS_MAX {
                    return Err(too_many());
                }
                self.0.retain(|setting| !same(setting));
                self.0.push(Setting { policy, limit, amount, burst, set_at: now });
            }
        }
        Ok(())
    }
}

fn too_many() -> StoreError {
    let message = format!("{SETTINGS_MAX} limits are set already; clear some first");
    StoreError { fault: Fault::Caller, retry: Retry::Useless, message }
}

impl Limit {
    /// The same limit with what was set for it. The meter stays.
    pub fn with_setting(&self, setting: &Setting) -> Result<Self, LimitError> {
        self.with_amounts(setting.amount, setting.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(amounts: Option<(u64, Option<u64>)>) -> SettingChange {
        SettingChange { policy: Name::new("p").unwrap(), limit: Name::new("l").unwrap(), amounts }
    }

    #[test]
    fn the_last_change_of_a_limit_counts() {
        let mut list = SettingList::default();
        list.change(change(Some((5, None))), Timestamp::from_secs(1)).unwrap();
        list.change(change(Some((7, Some(9)))), Timestamp::from_secs(2)).unwrap();
        assert_eq!(list.all().len(), 1);
        assert_eq!((list.all()[0].amount, list.all()[0].burst), (7, Some(9)));
        list.change(change(None), Timestamp::from_secs(3)).unwrap();
        assert!(list.all().is_empty());
    }

    #[test]
    fn settings_are_bounded() {
        let mut list = SettingList::default();
        for number in 0..SETTINGS_MAX {
            let limit = Name::new(&format!("l{number}")).unwrap();
            list.change(SettingChange { limit, ..change(Some((1, None))) }, Timestamp::EPOCH).unwrap();
        }
        assert!(list.change(change(Some((1, None))), Timestamp::EPOCH).is_err());
        let known = SettingChange { limit: Name::new("l0").unwrap(), ..change(Some((2, None))) };
        list.change(known, Timestamp::EPOCH).unwrap();
    }

    #[test]
    fn a_setting_changes_amount_and_burst_and_keeps_the_meter() {
        let setting = |amount, burst| Setting {
            policy: Name::new("p").unwrap(),
            limit: Name::new("l").unwrap(),
            amount,
            burst,
            set_at: Timestamp::EPOCH,
        };
        for (text, amount, burst, after) in [
            ("200 requests / minute", 250, None, "250 requests / minute"),
            ("200 requests / minute", 250, Some(9), "250 requests / minute"),
            ("5 / minute bucket", 8, None, "8 requests / minute bucket"),
            ("5 / minute bucket burst 9", 8, None, "8 requests / minute bucket burst 9"),
            ("5 / minute bucket", 8, Some(20), "8 requests / minute bucket burst 20"),
        ] {
            let limit: Limit = text.parse().unwrap();
            let set = limit.with_setting(&setting(amount, burst)).unwrap();
            assert_eq!(set.to_string(), after);
            assert_eq!(set.identity(), limit.identity());
        }
        let limit: Limit = "5 / minute".parse().unwrap();
        assert!(limit.with_setting(&setting(0, None)).is_err());
    }
}
