//! A3: the limit is data. A changed file is followed while takes go on; a wrong one changes nothing. T25.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use tollway::{Limiter, Policy, ReloadStatus, TakeError};

/// A config file with a limiter that follows it.
struct Followed {
    folder: TempDir,
    limiter: Limiter,
}

/// `adobe` with this many requests in a day that begins with the first of them, so that no test crosses its end.
fn text(amount: u64) -> String {
    format!("[policies.adobe]\nlimits = [\"{amount} requests / day from first call\"]\n")
}

impl Followed {
    fn start(amount: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollway.toml");
        fs::write(&path, text(amount)).unwrap();
        Self { folder, limiter: Limiter::from_config_blocking(path).unwrap() }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// As `mv` does it: a new file over the old one.
    fn move_over(&self, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path("tollway.toml")).unwrap();
    }

    /// Waits until the reload has come out as expected; a test that fails ends by its deadline.
    fn becomes(&self, expected: impl Fn(&ReloadStatus) -> bool) -> ReloadStatus {
        for _ in 0..3_000 {
            let status = self.limiter.reload_status();
            if expected(&status) {
                return status;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the change is not seen: {:?}", self.limiter.reload_status())
    }

    fn takes(&self, count: usize) -> usize {
        (0..count).filter(|_| self.limiter.try_take("adobe").now().unwrap().is_granted()).count()
    }
}

#[test]
fn a3_a_raised_limit_applies_by_name_and_by_handle_and_keeps_usage() {
    let followed = Followed::start(3);
    let handle = followed.limiter.policy("adobe").unwrap();
    assert_eq!(followed.takes(5), 3);
    assert_eq!(followed.limiter.reload_status(), ReloadStatus::default());
    followed.move_over(&text(5));
    followed.becomes(|status| status.reloads == 1);
    assert!(handle.try_take().now().unwrap().is_granted(), "by a handle from before");
    assert_eq!(followed.takes(5), 1, "by name");
    assert!(!handle.clone().try_take().now().unwrap().is_granted());
    let usage = &handle.usage().now().unwrap().limits[0];
    assert_eq!((usage.amount, usage.used, usage.remaining), (5, 5, 0));
}

#[test]
fn a3_a_lowered_limit_denies_subjects_above_it() {
    let followed = Followed::start(5);
    assert_eq!(followed.takes(4), 4);
    fs::write(followed.path("tollway.toml"), text(2)).unwrap();
    followed.becomes(|status| status.reloads == 1);
    assert_eq!(followed.takes(3), 0);
    let usage = &followed.limiter.usage("adobe").now().unwrap().limits[0];
    assert_eq!((usage.used, usage.remaining), (4, 0));
}

#[test]
fn a_wrong_file_is_reported_and_the_old_one_stays_in_force() {
    let followed = Followed::start(3);
    for wrong in [text(9).replace("requests", "requests requests"), "[policy.adobe]".to_owned(), text(0)] {
        followed.move_over(&wrong);
        let status = followed.becomes(|status| status.error.is_some());
        assert_eq!(status.reloads, followed.limiter.reload_status().reloads);
        assert!(status.error.unwrap().contains("tollway.toml"));
        assert_eq!(followed.limiter.policies()[0].limits()[0].amount(), 3);
        followed.move_over(&text(3));
        followed.becomes(|status| status.error.is_none());
    }
    fs::remove_file(followed.path("tollway.toml")).unwrap();
    followed.becomes(|status| status.error.is_some());
    assert_eq!(followed.takes(5), 3);
    followed.move_over(&text(4));
    followed.becomes(|status| status.error.is_none());
    assert_eq!(followed.takes(5), 1, "good again, and followed again");
}

#[test]
fn a_reload_adds_and_removes_policies() {
    let followed = Followed::start(3);
    let handle = followed.limiter.policy("adobe").unwrap();
    followed.move_over(&text(3).replace("adobe", "notion"));
    followed.becomes(|status| status.reloads == 1);
    assert!(matches!(followed.limiter.try_take("adobe").now(), Err(TakeError::UnknownPolicy { .. })));
    assert!(followed.limiter.try_take("notion").now().unwrap().is_granted());
    assert!(handle.try_take().now().unwrap().is_granted(), "a handle keeps the policy");
    followed.move_over(&text(3));
    followed.becomes(|status| status.reloads == 2);
    assert_eq!(followed.takes(5), 2, "back again, with what was used");
}

#[test]
fn a_changed_store_is_reported_to_need_a_restart() {
    let followed = Followed::start(3);
    followed.move_over(&format!("[store]\nurl = \"memory:?lines=5000\"\n{}", text(9)));
    let error = followed.becomes(|status| status.error.is_some()).error.unwrap();
    assert!(error.contains("restart"), "{error}");
    assert_eq!(followed.takes(9), 3, "nothing of that file is in force");
}

/// T25: no take is judged by half of one file and half of another.
#[test]
fn t25_limits_replaced_under_load_never_mix() {
    let policies = |few: u64, many: u64| {
        let limits =
            [format!("few: {few} / day from first call"), format!("many: {many} / 2 days from first call")];
        Policy::new("api", limits.iter().map(String::as_str)).unwrap()
    };
    // One limit of each version binds, at 1,000 or at 2,000; of a mixture none would before 9,000.
    let versions = [policies(1_000, 9_000), policies(9_000, 2_000)];
    let limiter = Limiter::builder().with_policy(versions[0].clone()).unwrap().build();
    let over = AtomicBool::new(false);
    let granted: usize = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|thread| {
                let (limiter, over) = (&limiter, &over);
                scope.spawn(move || {
                    let handle = limiter.policy("api").unwrap();
                    let mut granted = 0;
                    while !over.load(Ordering::SeqCst) {
                        let take = if thread % 2 == 0 { handle.try_take() } else { limiter.try_take("api") };
                        granted += usize::from(take.now().unwrap().is_granted());
                    }
                    granted
                })
            })
            .collect();
        for version in versions.iter().cycle().take(400) {
            limiter.replace_policies([version.clone()]).unwrap();
            std::thread::yield_now();
        }
        limiter.replace_policies([versions[1].clone()]).unwrap();
        while limiter.usage("api").now().unwrap().limits[1].remaining > 0 {
            std::thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(granted, 2_000);
    let usage = limiter.usage("api").now().unwrap();
    assert_eq!((usage.limits[0].used, usage.limits[1].used), (2_000, 2_000));
}
