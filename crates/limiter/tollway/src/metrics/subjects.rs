//! Which subjects used a policy in the last minutes: a bounded sketch, filled only while someone watches.
//!
//! A take without a watcher pays for one relaxed load. While watched, the busiest subjects are kept by name, and all are
//! counted by a hash of theirs.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollway_core::{Subject, Timestamp};

/// The minutes that are looked back.
const MINUTES: usize = 5;

/// The subjects of a policy that are kept by name: more than a table shows.
const BUSIEST_MAX: usize = 64;

/// The policies that have a sketch. Each has up to about 12 KiB, so all have 3 MiB; those used first have one.
const SKETCHES_MAX: usize = 256;

/// The words of a bitmap that counts subjects: up to some 20,000 within a few percent.
const BITMAP_WORDS: usize = 64;

/// Whether subjects are watched, and the minute it is.
#[derive(Debug, Default)]
pub(crate) struct SubjectWatch {
    on: AtomicBool,
    minute: AtomicU64,
    sketches: AtomicUsize,
}

impl SubjectWatch {
    #[inline(always)]
    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, now: Option<Timestamp>) {
        if let Some(now) = now {
            self.minute.store(now.as_millis() / 60_000, Ordering::Relaxed);
        }
        self.on.store(now.is_some(), Ordering::Relaxed);
    }
}

/// The subjects of one policy.
#[derive(Debug)]
pub(super) struct WatchedSubjects {
    watch: Arc<SubjectWatch>,
    sketch: Mutex<Option<Box<Sketch>>>,
}

/// What is known of the subjects of a policy in the last five minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectsSeen {
    /// How many there were, about.
    pub count: u64,
    /// Those with the most takes, the busiest first.
    pub busiest: Vec<SubjectTakes>,
}

/// The takes of one subject in the last five minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectTakes {
    /// The subject.
    pub subject: Subject,
    /// How many were granted.
    pub granted: u64,
    /// How many were denied.
    pub denied: u64,
}

impl WatchedSubjects {
    pub(super) fn new(watch: &Arc<SubjectWatch>) -> Self {
        Self { watch: Arc::clone(watch), sketch: Mutex::default() }
    }

    /// Whether takes are noted now.
    #[inline(always)]
    pub(super) fn is_watched(&self) -> bool {
        self.watch.is_on()
    }

    /// Notes a take. Leaves it out if another thread notes one at this moment: no take waits for a page.
    #[cold]
    pub(super) fn note(&self, subject: &str, granted: bool) {
        let Ok(mut sketch) = self.sketch.try_lock() else { return };
        if sketch.is_none() && self.watch.sketches.fetch_add(1, Ordering::Relaxed) >= SKETCHES_MAX {
            self.watch.sketches.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let sketch = sketch.get_or_insert_with(Box::default);
        sketch.advance(self.watch.minute.load(Ordering::Relaxed));
        sketch.note(subject, granted);
    }

    /// What was seen; `None` if the policy has no sketch.
    pub(super) fn seen(&self) -> Option<SubjectsSeen> {
        let mut sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner);
        let sketch = sketch.as_mut()?;
        sketch.advance(self.watch.minute.load(Ordering::Relaxed));
        Some(sketch.seen())
    }

    pub(super) fn forget(&self) {
        if self.sketch.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.watch.sketches.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The last minutes, in a ring.
#[derive(Debug)]
struct Sketch {
    hashes: RandomState,
    minute: u64,
    bitmaps: [[u64; BITMAP_WORDS]; MINUTES],
    busiest: Vec<Busy>,
}

#[derive(Debug)]
struct Busy {
    subject: Subject,
    granted: [u32; MINUTES],
    denied: [u32; MINUTES],
}

impl Busy {
    fn takes(&self) -> u64 {
        sum(&self.granted).saturating_add(sum(&self.denied))
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            hashes: RandomState::new(),
            minute: 0,
            bitmaps: [[0; BITMAP_WORDS]; MINUTES],
            busiest: Vec::new(),
        }
    }
}

impl Sketch {
    /// Forgets what is older than the ring.
    fn advance(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64);
        for back in 0..passed {
            let slot = slot(minute.saturating_sub(back));
            self.bitmaps[slot] = [0; BITMAP_WORDS];
            for busy in &mut self.busiest {
                (busy.granted[slot], busy.denied[slot]) = (0, 0);
            }
        }
        if passed > 0 {
            self.busiest.retain(|busy| busy.takes() > 0);
            self.minute = minute;
        }
    }

    fn note(&mut self, subject: &str, granted: bool) {
        let slot = slot(self.minute);
        let hash = self.hashes.hash_one(subject);
        let bit = usize::try_from(hash % (BITMAP_WORDS as u64 * 64)).unwrap_or(0);
        self.bitmaps[slot][bit / 64] |= 1 << (bit % 64);
        let place = match self.busiest.iter().position(|busy| busy.subject.as_str() == subject) {
            Some(place) => place,
            None => {
                let Ok(subject) = Subject::new(subject) else { return };
                let new = Busy { subject, granted: [0; MINUTES], denied: [0; MINUTES] };
                self.add(new)
            }
        };
        if let Some(busy) = self.busiest.get_mut(place) {
            let takes = if granted { &mut busy.granted } else { &mut busy.denied };
            takes[slot] = takes[slot].saturating_add(1);
        }
    }

    /// In place of the one with the fewest takes, if there is no room.
    fn add(&mut self, new: Busy) -> usize {
        if self.busiest.len() < BUSIEST_MAX {
            self.busiest.push(new);
            return self.busiest.len() - 1;
        }
        let least = self.busiest.iter().enumerate().min_by_key(|(_, busy)| busy.takes());
        let place = least.map_or(0, |(place, _)| place);
        self.busiest[place] = new;
        place
    }

    fn seen(&self) -> SubjectsSeen {
        let takes = |busy: &Busy| SubjectTakes {
            subject: busy.subject.clone(),
            granted: sum(&busy.granted),
            denied: sum(&busy.denied),
        };
        let mut busiest: Vec<SubjectTakes> = self.busiest.iter().map(takes).collect();
        busiest.sort_by_key(|one| std::cmp::Reverse(one.granted.saturating_add(one.denied)));
        let count = self.count().max(busiest.len().try_into().unwrap_or(u64::MAX));
        // Few subjects are all known by name; then their number is exact.
        let count = if self.busiest.len() < BUSIEST_MAX { busiest.len() as u64 } else { count };
        SubjectsSeen { count, busiest }
    }

    /// Linear counting: from the share of bits that no subject has set.
    fn count(&self) -> u64 {
        let bits = (BITMAP_WORDS * 64) as f64;
        let of_all = |word: usize| self.bitmaps.iter().fold(0, |bits, minute| bits | minute[word]);
        let set: u32 = (0..BITMAP_WORDS).map(|word| of_all(word).count_ones()).sum();
        let unset = (bits - f64::from(set)).max(1.0);
        (bits * (bits / unset).ln()).round() as u64
    }
}

fn slot(minute: u64) -> usize {
    usize::try_from(minute % MINUTES as u64).unwrap_or(0)
}

fn sum(minutes: &[u32; MINUTES]) -> u64 {
    minutes.iter().map(|takes| u64::from(*takes)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> WatchedSubjects {
        let watch = Arc::new(SubjectWatch::default());
        watch.set(Some(at(100)));
        WatchedSubjects::new(&watch)
    }

    fn at(minute: u64) -> Timestamp {
        Timestamp::from_secs(60 * minute)
    }

    #[test]
    fn busy_subjects_are_known_by_name_for_five_minutes() {
        let subjects = watched();
        for _ in 0..3 {
            subjects.note("ann", true);
        }
        subjects.note("bob", false);
        let seen = subjects.seen().unwrap();
        let takes: Vec<_> =
            seen.busiest.iter().map(|one| (one.subject.as_str(), one.granted, one.denied)).collect();
        assert_eq!((seen.count, &takes[..]), (2, &[("ann", 3, 0), ("bob", 0, 1)][..]));
        subjects.watch.set(Some(at(104)));
        assert_eq!(subjects.seen().unwrap().count, 2);
        subjects.watch.set(Some(at(105)));
        assert_eq!(subjects.seen().unwrap(), SubjectsSeen::default());
    }

    #[test]
    fn any_number_of_subjects_is_counted_in_bounded_memory() {
        let subjects = watched();
        for number in 0..5_000 {
            subjects.note(&format!("user-{number}"), true);
            subjects.note("busy", true);
        }
        let seen = subjects.seen().unwrap();
        assert!((4_500..5_500).contains(&seen.count), "{}", seen.count);
        assert_eq!(seen.busiest.len(), BUSIEST_MAX);
        assert_eq!((seen.busiest[0].subject.as_str(), seen.busiest[0].granted), ("busy", 5_000));
    }

    #[test]
    fn so_many_policies_have_a_sketch() {
        let watch = Arc::new(SubjectWatch::default());
        watch.set(Some(at(1)));
        let policies: Vec<_> = (0..=SKETCHES_MAX).map(|_| WatchedSubjects::new(&watch)).collect();
        policies.iter().for_each(|policy| policy.note("ann", true));
        assert_eq!(policies.iter().filter(|policy| policy.seen().is_some()).count(), SKETCHES_MAX);
        policies[0].forget();
        policies[SKETCHES_MAX].note("ann", true);
        assert!(policies[SKETCHES_MAX].seen().is_some());
    }
}
