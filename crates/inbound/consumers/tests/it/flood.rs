//! More consumer names than can be looked up: a client that invents names turns no limit off.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::Arc;

use crate::support::{consumer, draft, soon};
use futures_util::FutureExt;
use rusqlite::Connection;
use tollway::core::WhenStoreFails;
use tollway::{Limiter, PolicyHandle};
use tollway_consumers::{
    Admission, ConsumersConfig, Gate, Records, RecordsError, RecordsFault, SqliteRecords, read_date,
};
use tollway_testkit::ManualClock;

/// More lookups than the SQLite queue holds.
const FLOOD: usize = 2_000;

/// A gate over a file that another connection locks, so that every read waits; `c` is already cached.
struct Flooded {
    gate: Gate,
    _folder: tempfile::TempDir,
    _holder: Connection,
}

impl Flooded {
    fn new(per_hour: i64, when_store_fails: WhenStoreFails) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.db");
        let records = Arc::new(SqliteRecords::open(&format!("sqlite:{}", path.display())).unwrap());
        soon(records.create(draft("c", 7))).unwrap();
        let clock = Arc::new(ManualClock::at(read_date("2026-06-01T12:00:00Z").unwrap().timestamp()));
        let defaults = [-1, -1, per_hour, -1, -1, -1];
        let config = ConsumersConfig { defaults, when_store_fails, ..ConsumersConfig::default() };
        let limiter = Limiter::builder().clock(clock).build();
        let gate = Gate::new(limiter, records, &config).unwrap();
        assert_eq!(names(soon(gate.admission(&consumer("c")))), ["per_minute", "per_month"]);
        let holder = Connection::open(&path).unwrap();
        holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
        Self { gate, _folder: folder, _holder: holder }
    }

    /// Looks up `FLOOD` unknown consumers, and returns the immediate result of the last lookup.
    fn flood(&self) -> Result<Admission<PolicyHandle>, RecordsError> {
        let strangers: Vec<_> = (0..FLOOD).map(|number| consumer(&format!("invented-{number}"))).collect();
        let mut waiting: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
        let mut last = None;
        for stranger in &strangers {
            let mut asked = Box::pin(self.gate.admission(stranger));
            last = (&mut asked).now_or_never();
            waiting.push(asked);
        }
        last.unwrap_or_else(|| panic!("all {} lookups are queued", waiting.len()))
    }
}

/// The names of the limits in force.
fn names(admission: Result<Admission<PolicyHandle>, RecordsError>) -> Vec<String> {
    match admission.unwrap() {
        Admission::Counted(handle) => {
            handle.policy().limits().iter().map(|limit| limit.name().to_string()).collect()
        }
        Admission::Free => panic!("it is unlimited"),
        Admission::Blocked => panic!("it is blocked"),
    }
}

/// C3, C7: a flood is not an outage. The defaults apply to consumers that cannot be looked up; cached consumers keep their
/// own limits.
#[test]
fn a_flood_of_invented_consumers_gets_the_default_limits() {
    for mode in [WhenStoreFails::Open, WhenStoreFails::Local] {
        let flooded = Flooded::new(5, mode);
        assert_eq!(names(flooded.flood()), ["per_hour"], "{mode:?}");
        let known = flooded.gate.admission(&consumer("c")).now_or_never().unwrap();
        assert_eq!(names(known), ["per_minute", "per_month"], "{mode:?}");
    }
}

/// C3, C7: with unlimited defaults or `closed`, consumers that cannot be looked up are refused.
#[test]
fn without_defaults_a_flood_is_refused() {
    for (per_hour, mode) in
        [(-1, WhenStoreFails::Open), (-1, WhenStoreFails::Local), (5, WhenStoreFails::Closed)]
    {
        let error = Flooded::new(per_hour, mode).flood().err().unwrap();
        assert_eq!(error.fault, RecordsFault::Busy, "{mode:?}: {error}");
    }
}
