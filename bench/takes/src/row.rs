//! The rows: the kinds of takes that are measured.

use std::sync::Arc;

use tollway::{Clock, Limiter, PolicyHandle, Taken, Timestamp};

/// The number of subjects of rows with known subjects, unless the row says otherwise.
const SUBJECTS: usize = 1_000;

/// A prime, so that a stride visits every subject before it repeats.
const STRIDE: usize = 7_919;

/// More than a run can take from one subject.
const PLENTY: &str = "10000 / hour bucket burst 1000000000";

/// One kind of take.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    limits: &'static [&'static str],
    grants: bool,
    /// How many subjects it has.
    subjects: usize,
    /// Whether every take is for a new subject.
    new_subjects: bool,
    /// Whether every take has its own id.
    ids: bool,
    take: fn(&Limits, &Visit<'_>) -> bool,
}

pub(crate) static ROWS: [Row; 9] = [
    Row::new("granted", &[PLENTY], |limits, visit| {
        granted(limits.handle.try_take().subject(visit.subject).now())
    }),
    Row {
        grants: false,
        ..Row::new("denied", &["1 / 300 days bucket"], |limits, visit| {
            granted(limits.handle.try_take().subject(visit.subject).now())
        })
    },
    Row::new(
        "six-limits",
        &[
            "10000 / hour bucket burst 1000000000",
            "10000 / 2 hours bucket burst 1000000000",
            "10000 / 3 hours bucket burst 1000000000",
            "10000 / 4 hours bucket burst 1000000000",
            "10000 / 5 hours bucket burst 1000000000",
            "10000 / 6 hours bucket burst 1000000000",
        ],
        |limits, visit| granted(limits.handle.try_take().subject(visit.subject).now()),
    ),
    // More than the entry of a packed account holds.
    Row::new(
        "seven-limits",
        &[
            "10000 / hour bucket burst 1000000000",
            "10000 / 2 hours bucket burst 1000000000",
            "10000 / 3 hours bucket burst 1000000000",
            "10000 / 4 hours bucket burst 1000000000",
            "10000 / 5 hours bucket burst 1000000000",
            "10000 / 6 hours bucket burst 1000000000",
            "10000 / 7 hours bucket burst 1000000000",
        ],
        |limits, visit| granted(limits.handle.try_take().subject(visit.subject).now()),
    ),
    Row::new("named-cost", &["10000 tokens / hour bucket burst 1000000000"], |limits, visit| {
        granted(limits.handle.try_take().subject(visit.subject).cost("tokens", 3).now())
    }),
    Row {
        ids: true,
        ..Row::new("id", &[PLENTY], |limits, visit| {
            granted(limits.handle.try_take().subject(visit.subject).id(visit.id).now())
        })
    },
    // A thousand ids of each subject are remembered at the end of a run with two threads, the most that an account keeps.
    Row {
        ids: true,
        subjects: 40,
        ..Row::new("many-ids", &[PLENTY], |limits, visit| {
            granted(limits.handle.try_take().subject(visit.subject).id(visit.id).now())
        })
    },
    Row::new("two-policies", &[PLENTY], |limits, visit| {
        let take = limits.handle.try_take().subject(visit.subject);
        granted(take.and("other").subject(visit.subject).now())
    }),
    Row {
        new_subjects: true,
        ..Row::new("new-subject", &[PLENTY], |limits, visit| {
            granted(limits.handle.try_take().subject(visit.subject).now())
        })
    },
];

/// The limiter's clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// The machine's.
    Machine,
    /// Fixed: the machine's clock calibrates itself for a varying time.
    Fixed,
}

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000_000)
    }
}

/// What one thread takes with.
struct Limits {
    handle: PolicyHandle,
}

struct Visit<'t> {
    subject: &'t str,
    id: &'t str,
}

/// One thread's takes.
pub(crate) struct Taker<'r> {
    row: &'r Row,
    limits: Limits,
    /// Visited repeatedly, in an order that defeats prefetching of neighbours.
    subjects: Vec<String>,
    /// One for each take, if the row has ids.
    ids: Vec<String>,
}

impl Row {
    const fn new(
        name: &'static str,
        limits: &'static [&'static str],
        take: fn(&Limits, &Visit<'_>) -> bool,
    ) -> Self {
        Self { name, limits, grants: true, subjects: SUBJECTS, new_subjects: false, ids: false, take }
    }

    /// A new limiter, and a taker per thread, so that no round depends on another.
    pub(crate) fn takers(&self, threads: usize, takes: usize, time: Time) -> Vec<Taker<'_>> {
        let limits = || self.limits.iter().copied();
        let builder = Limiter::builder().policy("bench", limits()).unwrap();
        let builder = builder.policy("other", limits()).unwrap();
        let builder = match time {
            Time::Machine => builder,
            Time::Fixed => builder.clock(Arc::new(FixedClock)),
        };
        let limiter = builder.build();
        let taker = |thread: usize| {
            let limits = Limits { handle: limiter.policy("bench").unwrap() };
            let count = if self.new_subjects { takes } else { self.subjects };
            let subjects = (0..count).map(|number| self.subject(thread, number)).collect();
            let ids = (0..if self.ids { takes } else { 0 }).map(|number| format!("{thread}-{number:08}"));
            Taker { row: self, limits, subjects, ids: ids.collect() }
        };
        let takers: Vec<Taker<'_>> = (0..threads).map(taker).collect();
        if !self.new_subjects {
            takers.iter().for_each(Taker::warm_up);
        }
        takers
    }

    fn subject(&self, thread: usize, number: usize) -> String {
        match self.new_subjects {
            true => format!("new:{thread}:{number:08}"),
            false => format!("user:{number:08}"),
        }
    }
}

impl Taker<'_> {
    /// Creates every subject; uses up those that are to be denied.
    fn warm_up(&self) {
        for subject in &self.subjects {
            let take = self.limits.handle.try_take().subject(subject);
            drop(take.and("other").subject(subject).now().unwrap());
        }
    }

    /// Takes this often. Every take must get the expected decision: a wrong one would make a wrong figure.
    pub(crate) fn take(&mut self, takes: usize) {
        let visit = |number: usize| Visit {
            subject: &self.subjects[number.wrapping_mul(STRIDE) % self.subjects.len()],
            id: self.ids.get(number).map_or("", String::as_str),
        };
        let granted = (0..takes).filter(|number| (self.row.take)(&self.limits, &visit(*number))).count();
        assert_eq!(granted, if self.row.grants { takes } else { 0 }, "granted of {takes}: {}", self.row.name);
    }
}

/// Only matched by reference: the result is not moved.
#[inline(always)]
fn granted<E: std::fmt::Debug>(taken: Result<Taken<'_>, E>) -> bool {
    matches!(taken.expect("the take is right"), Taken::Granted(_))
}
