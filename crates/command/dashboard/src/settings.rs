//! Limits that other processes and commands set: the store keeps what they are, and this remembers that they changed.

use std::collections::BTreeMap;

use tollway::{Limiter, Timestamp};
use tollway_server::{Change, ChangeLog};

/// Who it was that changed a limit elsewhere.
const ELSEWHERE: &str = "another process";

/// The limits that were set, as they were last seen: amounts by policy and limit. As many as the store keeps.
#[derive(Debug, Default)]
pub(crate) struct SettingsSeen(Option<BTreeMap<(String, String), u64>>);

impl SettingsSeen {
    /// Notes what changed since the last call, unless it went through this process.
    pub(crate) fn note(&mut self, limiter: &Limiter, changes: &ChangeLog, now: Timestamp) {
        let settings = limiter.settings();
        let key = |setting: &tollway::Setting| (setting.policy.to_string(), setting.limit.to_string());
        let new: BTreeMap<_, _> = settings.iter().map(|setting| (key(setting), setting.amount)).collect();
        let Some(old) = self.0.replace(new.clone()) else { return };
        for (place, to) in &new {
            if old.get(place) != Some(to) {
                note(changes, now, place, old.get(place), &amount(Some(to)));
            }
        }
        for (place, from) in &old {
            if !new.contains_key(place) {
                note(changes, now, place, Some(from), &amount(None));
            }
        }
    }
}

fn note(
    changes: &ChangeLog,
    now: Timestamp,
    (policy, limit): &(String, String),
    from: Option<&u64>,
    to: &str,
) {
    // A change through this process is in the log already, with its author.
    let known = changes.of(policy);
    if known.first().is_some_and(|last| last.what == *limit && now.since(last.at).as_micros() < 5_000_000) {
        return;
    }
    changes.note(Change {
        at: now,
        who: ELSEWHERE.to_owned(),
        target: policy.clone(),
        what: limit.clone(),
        from: amount(from),
        to: to.to_owned(),
    });
}

/// As the command shows it.
fn amount(set: Option<&u64>) -> String {
    set.map_or_else(|| "as in the config".to_owned(), ToString::to_string)
}
