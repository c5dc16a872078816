//! A machine whose date is set back, or forward, while processes share a state file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file_support::{NOON, charges, peek, place, policy, subject, take, used, wait};
use tollway_core::{
    Action, Begun, Booking, Clock, Operation, Outcome, PermitId, Policy, Span, Store, Subject, Terms,
    Timestamp,
};
use tollway_memory::FileStore;
use tollway_testkit::{MachineClock, ManualClock};

const HOUR: Span = Span::from_hours(1);
const MINUTE: Span = Span::from_mins(1);

/// A machine, and a state file on it.
struct Lab {
    _directory: tempfile::TempDir,
    path: PathBuf,
    machine: Arc<MachineClock>,
}

impl Lab {
    fn at_noon() -> Self {
        let (directory, path) = place();
        Self { _directory: directory, path, machine: Arc::new(MachineClock::at(NOON)) }
    }

    /// Another process that opens the file.
    fn process(&self) -> FileStore {
        FileStore::open(&self.path, self.machine.clone()).unwrap()
    }

    fn set_back(&self, by: Span) {
        self.machine.set_date(self.machine.now().minus(by));
    }
}

fn now(store: &FileStore) -> Timestamp {
    store.clock().unwrap().now()
}

fn team() -> Subject {
    subject("team-a")
}

/// I1, I7: the quota is neither granted again nor closed for an hour, whether the process runs on or starts then.
#[test]
fn windows_end_in_time_though_the_date_was_set_back() {
    for by in [HOUR, Span::from_days(1), Span::from_days(400)] {
        let lab = Lab::at_noon();
        let minute = policy("1 requests / minute");
        let old = lab.process();
        assert!(take(&old, &minute, &team()));
        lab.machine.advance(Span::from_secs(10));
        lab.set_back(by);
        let new = lab.process();
        for store in [&old, &new, &lab.process()] {
            assert!(!take(store, &minute, &team()), "the minute has 50 seconds left, date {by} back");
            assert_eq!(now(store), NOON.plus(Span::from_secs(10)));
        }
        lab.machine.advance(Span::from_secs(49));
        assert!(!take(&new, &minute, &team()));
        lab.machine.advance(Span::from_secs(1));
        assert!(take(&new, &minute, &team()), "the minute is over, date {by} back");
        assert!(!take(&old, &minute, &team()), "the unit is used up for the other process, too");
    }
}

/// A short command takes once and ends. None of them sees more than its own moment.
#[test]
fn time_goes_on_for_short_commands_that_are_only_denied() {
    let lab = Lab::at_noon();
    let minute = policy("1 requests / minute");
    assert!(take(&lab.process(), &minute, &team()));
    lab.set_back(HOUR);
    for seconds in 0..60 {
        assert!(!take(&lab.process(), &minute, &team()), "after {seconds} seconds");
        lab.machine.advance(Span::from_secs(1));
    }
    assert!(take(&lab.process(), &minute, &team()));
}

/// The same for a file of an earlier release, which says nothing of the boot clock, and after a reboot: time goes on from the
/// newest time in the file.
#[test]
fn time_goes_on_from_the_newest_time_in_the_file_after_a_reboot() {
    for reboots in [false, true] {
        let lab = Lab::at_noon();
        let minute = policy("1 requests / minute");
        match reboots {
            true => assert!(take(&lab.process(), &minute, &team())),
            false => {
                let earlier_release = FileStore::open(&lab.path, Arc::new(ManualClock::at(NOON))).unwrap();
                assert!(take(&earlier_release, &minute, &team()));
            }
        }
        lab.machine.advance(Span::from_secs(30));
        lab.set_back(HOUR);
        if reboots {
            lab.machine.reboot();
        }
        assert_eq!(now(&lab.process()), NOON, "30 seconds are lost, and no window ends early");
        for seconds in 0..60 {
            assert!(!take(&lab.process(), &minute, &team()), "after {seconds} seconds, reboots: {reboots}");
            lab.machine.advance(Span::from_secs(1));
        }
        assert!(take(&lab.process(), &minute, &team()));
    }
}

/// While the date goes forward, the store follows it, at once and in every process.
#[test]
fn the_store_follows_a_date_that_goes_forward() {
    let lab = Lab::at_noon();
    let day = policy("9 requests / day");
    let store = lab.process();
    assert!(take(&store, &day, &team()));
    lab.machine.set_date(NOON.plus(HOUR));
    assert_eq!(now(&store), NOON.plus(HOUR));
    assert!(take(&store, &day, &team()));
    lab.set_back(HOUR);
    assert_eq!(now(&lab.process()), NOON.plus(HOUR), "a step forward is remembered");
    lab.machine.advance(Span::from_mins(10));
    assert_eq!(now(&lab.process()), NOON.plus(HOUR).plus(Span::from_mins(10)));
    lab.machine.set_date(NOON.plus(Span::from_hours(3)));
    assert_eq!(now(&lab.process()), NOON.plus(Span::from_hours(3)), "the date is ahead again");
}

/// A process that saw a step which no record has yet tells the others of it with its next command.
#[test]
fn processes_agree_on_a_step_that_one_of_them_saw() {
    let lab = Lab::at_noon();
    let (one, other) = (lab.process(), lab.process());
    let day = policy("9 requests / day");
    assert!(take(&one, &day, &team()));
    lab.machine.set_date(NOON.plus(HOUR));
    assert_eq!(now(&one), NOON.plus(HOUR));
    lab.machine.set_date(NOON);
    assert_eq!(used(&one, &day, &team()), 1, "a read is enough");
    assert_eq!(used(&other, &day, &team()), 1);
    assert_eq!(now(&other), now(&one));
}

/// T7: a booked permit begins at its time.
#[test]
fn a_booking_begins_in_time_though_the_date_was_set_back() {
    let lab = Lab::at_noon();
    let store = lab.process();
    let minute = policy("1 requests / minute");
    let charges = charges(&[&minute], &team());
    assert!(take(&store, &minute, &team()));
    let terms = Terms { max_wait: Span::from_mins(2), ..Terms::now(PermitId(2)) };
    let book = Operation { charges: charges.clone(), action: Action::Take(terms.clone()) };
    let Outcome::Decided(booked) = wait(store.apply(&[book])).unwrap().remove(0) else {
        panic!("a take is decided")
    };
    let booking: Booking = *booked.booking().unwrap();
    lab.set_back(HOUR);
    let begin = || {
        let begin = Operation { charges: charges.clone(), action: Action::Begin(booking, terms.clone()) };
        wait(lab.process().apply(&[begin])).unwrap().remove(0)
    };
    assert_eq!(begin(), Outcome::Begun(Begun::Early(MINUTE)));
    lab.machine.advance(MINUTE);
    assert_eq!(begin(), Outcome::Begun(Begun::Now));
}

/// Compaction keeps from where time goes on.
#[test]
fn compaction_keeps_the_time() {
    let lab = Lab::at_noon();
    let busy = Policy::new("busy", ["1M requests / minute"]).unwrap();
    let mut store = lab.process();
    lab.set_back(HOUR);
    let size = || fs::metadata(&lab.path).unwrap().len();
    let mut before = 0;
    while size() >= before {
        before = size();
        assert!(take(&store, &busy, &team()));
        lab.machine.advance(Span::from_millis(1));
    }
    let time = now(&store);
    for _ in 0..2 {
        lab.machine.advance(MINUTE);
        store = lab.process();
    }
    assert_eq!(now(&store), time.plus(MINUTE).plus(MINUTE));
}

/// The first change in a boot brings the reading; as long as the date goes forward, nothing else does.
#[test]
fn the_file_has_one_reading_for_each_boot_and_step() {
    let lab = Lab::at_noon();
    let day = policy("99 requests / day");
    let readings = || fs::read_to_string(&lab.path).unwrap().matches("\"clock\":").count();
    for _ in 0..5 {
        assert!(take(&lab.process(), &day, &team()));
        lab.machine.advance(MINUTE);
    }
    assert_eq!(readings(), 1);
    let before = fs::read(&lab.path).unwrap();
    lab.machine.set_date(lab.machine.now().plus(HOUR));
    peek(&lab.process(), &day, &team());
    assert_eq!(fs::read(&lab.path).unwrap(), before, "a reader writes nothing while the date goes forward");
    assert!(take(&lab.process(), &day, &team()));
    assert_eq!(readings(), 2);
    lab.set_back(HOUR);
    for _ in 0..5 {
        peek(&lab.process(), &day, &team());
        assert!(take(&lab.process(), &day, &team()));
    }
    assert_eq!(readings(), 2, "the reading of the step still holds");
}

/// `doctor` looks into the file without changing it, also while a record is half written.
#[test]
fn the_time_in_a_file_can_be_read_without_changing_it() {
    let lab = Lab::at_noon();
    let time = || FileStore::time_in(&lab.path, lab.machine.clone()).unwrap();
    assert_eq!(time(), None);
    assert!(!lab.path.exists());
    assert!(take(&lab.process(), &policy("1 requests / minute"), &team()));
    let torn = [fs::read(&lab.path).unwrap(), b"0123456789abcdef {".to_vec()].concat();
    fs::write(&lab.path, &torn).unwrap();
    lab.set_back(HOUR);
    lab.machine.advance(MINUTE);
    assert_eq!(time(), Some(NOON.plus(MINUTE)));
    assert_eq!(fs::read(&lab.path).unwrap(), torn);
}

/// What earlier releases read in a record. They ignore other fields.
#[derive(serde::Deserialize)]
struct RecordOfEarlierReleases {
    #[serde(default)]
    forgotten: u64,
    settings: Option<serde_json::Value>,
    lines: Vec<serde_json::Value>,
}

/// The bytes of records with a reading, and that releases which do not know it can read them.
#[test]
fn a_reading_has_its_bytes_and_is_ignored_by_earlier_releases() {
    let lab = Lab::at_noon();
    drop(lab.process());
    let header = fs::read_to_string(&lab.path).unwrap().len();
    assert!(take(&lab.process(), &policy("1 requests / minute"), &team()));
    lab.machine.reboot();
    lab.set_back(HOUR);
    peek(&lab.process(), &policy("1 requests / minute"), &team());
    let text = fs::read_to_string(&lab.path).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/file_format_1.clock_records.txt");
    tollway_testkit::golden::compare(&golden, &text[header..]);
    let records = text[header..].lines().map(|record| record.split_once(' ').unwrap().1);
    let records: Vec<RecordOfEarlierReleases> =
        records.map(|json| serde_json::from_str(json).unwrap()).collect();
    assert_eq!(records.iter().map(|record| record.lines.len()).collect::<Vec<_>>(), [1, 0]);
    assert!(records.iter().all(|record| record.forgotten == 0 && record.settings.is_none()));
}
