//! How many jobs run in this process, and how many may: the dispatcher starts jobs in free slots, and a worker that ends a job
//! goes on with the next one in its own.

use std::sync::{Arc, Mutex};

use super::lock;

/// The slots of every stage.
pub(super) struct Slots(Mutex<Counts>);

struct Counts {
    /// How many jobs of each stage run, or may be the next of a worker.
    used: Vec<usize>,
    /// How many jobs of each stage may run, as the dispatcher knew it last.
    most: Vec<usize>,
    /// How many jobs run in all stages.
    running: usize,
    /// How many may; none: as many as the stages allow.
    total: Option<usize>,
    /// Places at the vendor that wait for a slot of any stage.
    places: usize,
}

impl Slots {
    pub(super) fn new(stages: usize, total: Option<u32>) -> Arc<Self> {
        let counts = Counts {
            used: vec![0; stages],
            most: vec![0; stages],
            running: 0,
            total: total.map(count),
            places: 0,
        };
        Arc::new(Self(Mutex::new(counts)))
    }

    pub(super) fn set_total(&self, total: Option<u32>) {
        lock(&self.0).total = total.map(count);
    }

    /// Whether stages share their slots.
    pub(super) fn are_shared(&self) -> bool {
        lock(&self.0).total.is_some()
    }

    /// Says how many jobs of each stage may run.
    pub(super) fn set_most(&self, most: Vec<usize>) {
        lock(&self.0).most = most;
    }

    /// Says how many places wait for a slot: workers that end leave them theirs.
    pub(super) fn set_places(&self, places: usize) {
        lock(&self.0).places = places;
    }

    /// How many more jobs of a stage may run.
    pub(super) fn free(&self, stage: usize) -> usize {
        lock(&self.0).free(stage)
    }

    /// How many more jobs may run in all stages.
    pub(super) fn free_in_total(&self) -> usize {
        lock(&self.0).free_in_total()
    }

    /// Takes up to this many free slots of a stage, before jobs are claimed for them.
    pub(super) fn take(self: &Arc<Self>, stage: usize, count: usize) -> Vec<Slot> {
        let mut counts = lock(&self.0);
        let count = counts.free(stage).min(count);
        counts.used[stage] += count;
        counts.running += count;
        (0..count).map(|_| Slot { slots: self.clone(), stage }).collect()
    }
}

impl Counts {
    fn free(&self, stage: usize) -> usize {
        self.most[stage].saturating_sub(self.used[stage]).min(self.free_in_total())
    }

    fn free_in_total(&self) -> usize {
        self.total.map_or(usize::MAX, |total| total.saturating_sub(self.running))
    }
}

fn count(jobs: u32) -> usize {
    usize::try_from(jobs).unwrap_or(usize::MAX)
}

/// The slot of a worker; free when it is dropped.
pub(super) struct Slot {
    slots: Arc<Slots>,
    stage: usize,
}

impl Slot {
    /// The stage of its job, by its index.
    pub(super) fn stage(&self) -> usize {
        self.stage
    }

    /// Those of these stages that may be the next for this slot, until the value is dropped: none gets more jobs than it may
    /// have meanwhile. None at all if there are fewer slots now than jobs.
    pub(super) fn keep_for(&mut self, stages: impl IntoIterator<Item = usize>) -> NextStages<'_> {
        let mut counts = lock(&self.slots.0);
        let room = counts.total.is_none_or(|total| counts.running + counts.places <= total);
        let mut kept = Vec::new();
        for stage in stages.into_iter().filter(|_| room) {
            // Its own job has a slot of its stage already.
            let used = counts.used[stage] - usize::from(stage == self.stage);
            if used < counts.most[stage] {
                counts.used[stage] = used + 1;
                kept.push(stage);
            }
        }
        drop(counts);
        NextStages { before: self.stage, slot: self, kept }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = lock(&self.slots.0);
        counts.used[self.stage] -= 1;
        counts.running -= 1;
    }
}

/// Stages one of which may be the next for a slot.
pub(super) struct NextStages<'s> {
    slot: &'s mut Slot,
    /// The stage of the slot so far.
    before: usize,
    kept: Vec<usize>,
}

impl NextStages<'_> {
    pub(super) fn stages(&self) -> &[usize] {
        &self.kept
    }

    /// The slot is for a job of this stage now.
    pub(super) fn choose(self, stage: usize) {
        let mut counts = lock(&self.slot.slots.0);
        counts.used[stage] += 1;
        counts.used[self.before] -= 1;
        drop(counts);
        self.slot.stage = stage;
    }
}

impl Drop for NextStages<'_> {
    fn drop(&mut self) {
        let mut counts = lock(&self.slot.slots.0);
        self.kept.iter().filter(|stage| **stage != self.before).for_each(|stage| counts.used[*stage] -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(most: &[usize], total: Option<u32>) -> Arc<Slots> {
        let slots = Slots::new(most.len(), total);
        slots.set_most(most.to_vec());
        slots
    }

    #[test]
    fn stage_gets_no_more_jobs_than_it_may_have_while_workers_ask_for_their_next() {
        let slots = slots(&[9, 2], Some(9));
        let mut workers = slots.take(0, 4);
        let mut next: Vec<NextStages<'_>> = workers.iter_mut().map(|slot| slot.keep_for([1, 0])).collect();
        let stages: Vec<&[usize]> = next.iter().map(NextStages::stages).collect();
        assert_eq!(stages, [&[1, 0][..], &[1, 0], &[0], &[0]]);
        next.remove(0).choose(1);
        drop(next);
        assert_eq!((workers[0].stage(), slots.free(1), slots.free(0), slots.free_in_total()), (1, 1, 5, 5));
        drop(workers);
        assert_eq!((slots.free(1), slots.free(0), slots.free_in_total()), (2, 9, 9));
    }

    #[test]
    fn workers_leave_slots_that_are_gone_or_that_places_wait_for() {
        let slots = slots(&[3], Some(3));
        let mut workers = slots.take(0, 9);
        assert_eq!(workers.len(), 3);
        assert_eq!(workers[0].keep_for([0]).stages(), [0]);
        slots.set_places(1);
        assert!(workers[0].keep_for([0]).stages().is_empty());
        slots.set_places(0);
        slots.set_most(vec![2]);
        assert!(workers[0].keep_for([0]).stages().is_empty());
        drop(workers.pop());
        assert_eq!(workers[0].keep_for([0]).stages(), [0]);
        slots.set_total(Some(1));
        assert!(workers[0].keep_for([0]).stages().is_empty());
        slots.set_total(None);
        assert_eq!(workers[0].keep_for([0]).stages(), [0]);
    }
}
