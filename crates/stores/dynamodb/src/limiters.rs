//! How many limiters read the settings within the last minute: counters in the item of the settings, one for each minute.
//!
//! A limiter adds one to the minute's counter when it reads settings for the first time in that minute: one write that
//! answers with the item, in place of a read. The item stays small however many limiters there are. A limiter that was not
//! counted in the minute before adds one to a second counter, too, so that new ones count before the others are counted again.
//! An answer that was lost counts one limiter twice for a minute, which makes shares smaller.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

use tollway_core::Timestamp;

use crate::item::{Attributes, number};

const COUNTED: &str = "limiters_";
const JOINED: &str = "limiters_joined_";

const MINUTE: u64 = 60;

/// Within so many seconds of a minute its limiters count themselves, each at a second of its own: one item takes a thousand
/// writes a second. An idle limiter reads every 30 s, so it has a turn in each minute.
const SPREAD: u64 = 30;

/// What this limiter did to be counted.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The minute in which it last counted itself.
    counted_in: Option<u64>,
    /// The minute in which it last tried.
    tried_in: Option<u64>,
    /// Its second of a minute.
    second: u64,
    /// Counters of past minutes that it saw.
    past: Vec<String>,
}

impl Registration {
    pub(crate) fn new() -> Self {
        let second = RandomState::new().hash_one(std::process::id()) % SPREAD;
        Self { counted_in: None, tried_in: None, second, past: Vec::new() }
    }

    /// The counters to add one to, and those to remove, if it is time.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<(Vec<String>, Vec<String>)> {
        let (minute, second) = minute_of(now);
        let before = self.counted_in.is_some_and(|counted| counted + 1 == minute);
        if self.tried_in == Some(minute) || (before && second < self.second) {
            return None;
        }
        self.tried_in = Some(minute);
        let joined = (!before).then(|| format!("{JOINED}{minute}"));
        let add = std::iter::once(format!("{COUNTED}{minute}")).chain(joined);
        Some((add.collect(), std::mem::take(&mut self.past)))
    }

    /// It was counted.
    pub(crate) fn counted(&mut self) {
        self.counted_in = self.tried_in;
    }

    /// How many limiters the item counts, this one included. None if this one cannot be counted.
    pub(crate) fn limiters(&mut self, item: &Attributes, now: Timestamp) -> Option<NonZeroU32> {
        let (minute, _) = minute_of(now);
        let is_past = |name: &&String| minute_named(name).is_some_and(|named| named + 1 < minute);
        self.past = item.keys().filter(is_past).cloned().collect();
        if self.tried_in.is_some() && self.counted_in != self.tried_in {
            return None;
        }
        let count = |name: &str, minute: u64| number(item, &format!("{name}{minute}")).unwrap_or(0);
        let before = count(COUNTED, minute.saturating_sub(1)).saturating_add(count(JOINED, minute));
        let counted = before.max(count(COUNTED, minute));
        let is_counted = self.counted_in.is_some_and(|counted| counted + 1 >= minute);
        let limiters = counted.saturating_add(u64::from(!is_counted)).max(1);
        NonZeroU32::new(u32::try_from(limiters).unwrap_or(u32::MAX))
    }
}

/// The counters in an item, which a change of a setting keeps.
pub(crate) fn counters(item: &Attributes) -> Attributes {
    let counters = item.iter().filter(|(name, _)| minute_named(name).is_some());
    counters.map(|(name, value)| (name.clone(), value.clone())).collect::<HashMap<_, _>>()
}

fn minute_named(name: &str) -> Option<u64> {
    let minute = name.strip_prefix(JOINED).or_else(|| name.strip_prefix(COUNTED))?;
    minute.parse().ok()
}

/// The minute since 1970, and the second in it.
fn minute_of(now: Timestamp) -> (u64, u64) {
    let seconds = now.as_micros() / 1_000_000;
    (seconds / MINUTE, seconds % MINUTE)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    const MINUTE_ONE: u64 = 29_454_480;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(MINUTE_ONE * MINUTE + second)
    }

    /// Counts in the item if it is time, and reads it.
    fn read(item: &mut Attributes, limiter: &mut Registration, now: Timestamp) -> u32 {
        if let Some((add, remove)) = limiter.due(now) {
            for name in add {
                let count = number(item, &name).unwrap_or(0) + 1;
                item.insert(name, AttributeValue::N(count.to_string()));
            }
            remove.iter().for_each(|name| drop(item.remove(name)));
            limiter.counted();
        }
        limiter.limiters(item, now).unwrap().get()
    }

    fn limiters(count: usize) -> Vec<Registration> {
        (0..count).map(|_| Registration::new()).collect()
    }

    #[test]
    fn limiters_are_counted_from_minute_to_minute_and_for_a_minute_after_they_end() {
        let (mut item, mut running) = (Attributes::new(), limiters(64));
        for limiter in &mut running {
            read(&mut item, limiter, at(50));
        }
        for second in 51..200 {
            let counts: Vec<u32> =
                running.iter_mut().map(|limiter| read(&mut item, limiter, at(second))).collect();
            assert!(counts.iter().all(|count| *count == 64), "{second}: {counts:?}");
        }
        running.truncate(10);
        let last = (200..400).map(|second| read(&mut item, &mut running[0], at(second)));
        assert_eq!(last.last(), Some(1), "the others have read nothing since");
        assert!(item.len() <= 4, "{item:?}");
    }

    #[test]
    fn new_limiters_count_at_once() {
        let (mut item, mut running) = (Attributes::new(), limiters(10));
        for limiter in &mut running {
            read(&mut item, limiter, at(0));
        }
        let mut new = limiters(5);
        for limiter in &mut new {
            read(&mut item, limiter, at(60));
        }
        assert!(running.iter_mut().all(|limiter| read(&mut item, limiter, at(60)) == 15));
        let looks = Registration::new().limiters(&item, at(60));
        assert_eq!(looks.map(NonZeroU32::get), Some(16), "one that only looks counts itself");
    }

    #[test]
    fn a_limiter_that_may_not_write_knows_no_number() {
        let mut limiter = Registration::new();
        assert!(limiter.due(at(0)).is_some());
        assert_eq!(limiter.limiters(&Attributes::new(), at(0)), None);
        assert!(limiter.due(at(59)).is_none() && limiter.due(at(60)).is_some(), "it tries once a minute");
    }
}
