//! Limits set at run time (A3): kept in the store, followed by every process, overriding the config file.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollway::config::ConfigFile;
use tollway::core::{Answer, Operation, Setting, SettingChange, Settings, SettingsAnswer};
use tollway::{Denied, Limiter, SetLimitError, Store, StoreUrl};
use tollway_memory::{FileStore, WallClock};

/// Counts how often the settings are read.
struct Counted(FileStore, AtomicU64);

impl Store for Counted {
    fn apply(&self, batch: &[Operation]) -> Answer {
        self.0.apply(batch)
    }

    fn settings(&self) -> Option<&dyn Settings> {
        Some(self)
    }
}

impl Settings for Counted {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Settings::settings(&self.0)
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        self.0.change(change)
    }
}

fn sharing(path: &std::path::Path) -> Limiter {
    let store = StoreUrl::File(path.to_owned());
    let builder = Limiter::builder().policy("adobe", ["2 requests / day"]).unwrap();
    builder.store_at(&store).unwrap().build()
}

fn denied(limiter: &Limiter) -> Denied {
    limiter.try_take("adobe").now().unwrap().denied().unwrap()
}

fn amount(limiter: &Limiter) -> u64 {
    limiter.policies()[0].limits()[0].amount()
}

#[test]
fn a_set_limit_applies_at_once_and_keeps_usage() {
    let limiter = Limiter::builder().policy("adobe", ["2 requests / day"]).unwrap().build();
    let takes = |limiter: &Limiter| {
        (0..9).take_while(|_| limiter.try_take("adobe").now().unwrap().is_granted()).count()
    };
    assert_eq!(takes(&limiter), 2);
    limiter.set_limit("adobe", "requests_per_day", "5 requests / day").now().unwrap();
    assert_eq!(takes(&limiter), 3);
    limiter.clear_limit("adobe", "requests_per_day").now().unwrap();
    assert_eq!((takes(&limiter), amount(&limiter)), (0, 2));
    assert_eq!(limiter.usage("adobe").now().unwrap().limits[0].used, 5);
}

/// A3: "every task follows within seconds". The other limiter is another process's, as far as the file is concerned.
#[test]
fn every_process_of_the_store_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let (one, other) = (sharing(&path), sharing(&path));
    one.set_limit("adobe", "requests_per_day", "7").now().unwrap();
    assert_eq!(amount(&one), 7);
    // It follows by itself; how fast is for the documents, not for a test on a busy machine.
    while amount(&other) != 7 {
        std::thread::sleep(Duration::from_millis(20));
    }
    one.clear_limit("adobe", "requests_per_day").now().unwrap();
    other.follow_settings().now().unwrap();
    assert_eq!((amount(&one), amount(&other)), (2, 2));
}

/// Each read costs money on DynamoDB. A3: the next take reads at once.
#[test]
fn an_idle_process_rarely_reads_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let store = Arc::new(Counted(FileStore::open(&path, Arc::new(WallClock)).unwrap(), AtomicU64::new(0)));
    let reads = || store.1.load(Ordering::SeqCst);
    let builder = Limiter::builder().policy("adobe", ["2 requests / day"]).unwrap();
    let limiter = builder.store(Arc::clone(&store) as _).build();
    std::thread::sleep(Duration::from_secs(6));
    assert!(reads() <= 2, "{} reads of an idle process", reads());
    sharing(&path).set_limit("adobe", "requests_per_day", "7").now().unwrap();
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    while limiter.policy("adobe").unwrap().policy().limits()[0].amount() != 7 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // A busy process follows every change.
    sharing(&path).set_limit("adobe", "requests_per_day", "9").now().unwrap();
    while limiter.policy("adobe").unwrap().policy().limits()[0].amount() != 9 {
        limiter.usage("adobe").now().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_set_limit_outlives_its_process_and_a_reload_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("state"), folder.path().join("tollway.toml"));
    sharing(&path).set_limit("adobe", "requests_per_day", "7").now().unwrap();
    let text = |limit| format!("store.url = 'file:{}'\npolicies.adobe.limits = ['{limit}']", path.display());
    std::fs::write(&config, text("2 requests / day")).unwrap();
    let limiter = Limiter::from_config_blocking(&config).unwrap();
    assert_eq!(amount(&limiter), 7);
    std::fs::write(&config, text("3 requests / day")).unwrap();
    let reread = ConfigFile::load(&config).unwrap().into_config();
    limiter.replace_policies(reread.policies().iter().map(|policy| (**policy).clone())).unwrap();
    assert_eq!(amount(&limiter), 7);
    limiter.clear_limit("adobe", "requests_per_day").now().unwrap();
    assert_eq!(amount(&limiter), 3);
}

#[test]
fn an_invalid_limit_fails_with_a_reason_and_changes_nothing() {
    let limiter = Limiter::builder()
        .policy("gemini", ["5 / minute bucket", "25 / day in America/Los_Angeles"])
        .unwrap()
        .build();
    let refused = |policy: &str, limit: &str, to: &str| {
        limiter.set_limit(policy, limit, to).now().unwrap_err().to_string()
    };
    assert!(refused("gemni", "requests_per_day", "9").contains("did you mean \"gemini\"?"));
    assert!(refused("gemini", "requests_per_dya", "9").contains("\"requests_per_dya\""));
    assert!(refused("gemini", "other", "9").contains("it has requests_per_minute, requests_per_day"));
    assert!(refused("gemini", "requests_per_day", "0 / day in America/Los_Angeles").contains("amount is 0"));
    assert!(refused("gemini", "requests_per_day", "9 / dya").contains("dya"));
    for other in ["9 / hour", "9 / day", "9 tokens / day in America/Los_Angeles", "9 / day sliding"] {
        assert!(
            refused("gemini", "requests_per_day", other).contains("only its amount and burst"),
            "{other}"
        );
    }
    assert!(limiter.settings().is_empty());
    limiter.set_limit("gemini", "requests_per_minute", "6 / minute bucket burst 20").now().unwrap();
    assert_eq!(limiter.policies()[0].limits()[0].capacity(), 20);
}

/// An amount of 0 stops a policy for every process that shares the store; usage is kept.
#[test]
fn amount_of_zero_stops_the_policy_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (path, name) = (folder.path().join("state"), "requests_per_day");
    let limiter = sharing(&path);
    assert!(limiter.try_take("adobe").now().unwrap().is_granted());
    limiter.set_limit("adobe", name, "0").now().unwrap();
    assert!(limiter.is_stopped("adobe", name));
    let denied = self::denied(&limiter);
    assert!(denied.stopped(), "{denied}");
    assert_eq!(denied.to_string(), "policy adobe is stopped: its limit requests_per_day was set to 0");
    let other = sharing(&path);
    other.follow_settings().now().unwrap();
    assert!(self::denied(&other).stopped());
    assert_eq!(other.usage("adobe").now().unwrap().limits[0].used, 1);

    other.clear_limit("adobe", name).now().unwrap();
    assert!(other.try_take("adobe").now().unwrap().is_granted());
    limiter.follow_settings().now().unwrap();
    assert!(!limiter.is_stopped("adobe", name));
    assert!(!self::denied(&limiter).stopped(), "by its limit");
}

/// A store of one's own need not keep settings.
#[test]
fn a_store_without_settings_fails_with_a_reason() {
    let store = tollway_testkit::PlainStore::new(Arc::new(tollway_testkit::ManualClock::default()));
    let limiter = Limiter::builder().policy("p", ["5 / minute"]).unwrap().store(Arc::new(store)).build();
    let error = limiter.set_limit("p", "requests_per_minute", "9").now().unwrap_err();
    assert!(matches!(error, SetLimitError::NotKept));
}
