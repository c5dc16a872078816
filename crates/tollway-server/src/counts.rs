//! What the server counts of its connections, by the door they came through.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollway::metrics::{Figure, Metric, Sample};

use crate::Door;
use crate::metrics::{CONNECTIONS_CUT_OFF, CONNECTIONS_OPEN, CONNECTIONS_TURNED_AWAY, CONNECTIONS_WAITED};

/// The counts of every door.
#[derive(Default)]
pub(crate) struct Counts {
    decisions: DoorCounts,
    administration: DoorCounts,
    grpc: DoorCounts,
    resp: DoorCounts,
}

/// What is counted at one door.
#[derive(Default)]
pub(crate) struct DoorCounts {
    open: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) turned_away: AtomicU64,
    pub(crate) cut_off: AtomicU64,
}

/// Which of a door's counts a metric tells.
type Told = (&'static Metric, fn(&DoorCounts) -> &AtomicU64);

/// A connection that counts as open until it is dropped.
pub(crate) struct Open(Arc<Counts>, Door);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.at(self.1).open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(crate) fn at(&self, door: Door) -> &DoorCounts {
        match door {
            Door::Decisions => &self.decisions,
            Door::Administration => &self.administration,
            Door::Grpc => &self.grpc,
            Door::Resp => &self.resp,
        }
    }

    pub(crate) fn open(self: &Arc<Self>, door: Door) -> Open {
        self.at(door).open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self), door)
    }

    /// What they are now. Every door has its series, whether it is open or not.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample> {
        let doors = [
            ("decisions", &self.decisions),
            ("grpc", &self.grpc),
            ("resp", &self.resp),
            ("administration", &self.administration),
        ];
        let figures: [Told; 4] = [
            (&CONNECTIONS_OPEN, |counts| &counts.open),
            (&CONNECTIONS_WAITED, |counts| &counts.waited),
            (&CONNECTIONS_TURNED_AWAY, |counts| &counts.turned_away),
            (&CONNECTIONS_CUT_OFF, |counts| &counts.cut_off),
        ];
        figures.into_iter().flat_map(move |(metric, count)| {
            doors.map(|(door, counts)| {
                let figure = Figure::Number(count(counts).load(Ordering::Relaxed));
                Sample { metric, labels: vec![door.to_owned()], figure }
            })
        })
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
