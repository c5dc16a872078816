//! How a source is polled, and what is kept of it between programs.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tollway_testkit::ManualClock;

use super::*;
use crate::Limiter;
use crate::source::{Source, SourceAnswer};

const START: Timestamp = Timestamp::from_secs(6_001_200);

/// Both limits have 200 in the program.
const LIMITS: [&str; 2] = ["200 requests / minute", "200 tokens / minute"];

/// A source in the test's hand, which gives the same text for every limit.
struct Manual {
    says: Mutex<Result<String, SourceError>>,
    reads: AtomicUsize,
}

impl Manual {
    fn new(says: &str) -> Arc<Self> {
        Arc::new(Self { says: Mutex::new(Ok(says.to_owned())), reads: AtomicUsize::new(0) })
    }

    fn fails(&self) {
        *self.says.lock().unwrap() = Err(SourceError("it is away".to_owned()));
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Source for Manual {
    fn read(&self, limits: &[Name]) -> SourceAnswer {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let says = self.says.lock().unwrap().clone();
        let count = limits.len();
        Box::pin(async move { says.map(|says| vec![Some(says); count]) })
    }

    fn title(&self) -> String {
        "manual".to_owned()
    }
}

/// Programs on one machine that keep their readings in one folder.
struct Machine {
    folder: TempDir,
    clock: Arc<ManualClock>,
}

impl Machine {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), clock: Arc::new(ManualClock::at(START)) }
    }

    fn kept(&self) -> KeptReading {
        KeptReading::new(self.folder.path(), "adobe manual".to_owned())
    }

    fn polled(&self, every: Span, source: &Arc<Manual>) -> SourceToPoll {
        let (policy, source) = (Name::new("adobe").unwrap(), Arc::clone(source) as Arc<dyn Source>);
        SourceToPoll { policy, every, source, configured: None, kept: Some(self.kept()) }
    }

    /// A program that has started and has its first amounts in force.
    fn program(&self, limits: &[&str], every: Span, source: &Arc<Manual>) -> Limiter {
        let builder = Limiter::builder().policy("adobe", limits.iter().copied()).unwrap();
        let limiter = builder.clock(self.clock.clone()).build();
        limiter.polled_sources().begin(self.polled(every, source), limiter.registry());
        limiter.sources_read().now().unwrap();
        limiter
    }

    /// A reading of another program, made at this time.
    fn keep(&self, amounts: &[(&str, u64)], at: Timestamp) {
        let mut status = SourceStatus::new(&self.polled(EVERY, &Manual::new("0")));
        status.read_at = Some(at);
        status.amounts = amounts.iter().map(|(name, amount)| (Name::new(name).unwrap(), *amount)).collect();
        let lock = loop {
            if let Lock::Held(lock) = self.kept().try_lock(at).unwrap() {
                break lock;
            }
            std::thread::sleep(LOCK_PAUSE);
        };
        self.kept().save(&status, at);
        drop(lock);
    }
}

const EVERY: Span = Span::from_secs(300);

fn amounts(limiter: &Limiter) -> Vec<u64> {
    limiter.policies()[0].limits().iter().map(|limit| limit.amount()).collect()
}

/// A3: a program whose source fails keeps what another program has read since, in force and in the file.
#[test]
fn a_failed_reading_keeps_a_later_amount() {
    let (machine, source) = (Machine::new(), Manual::new("100"));
    let program = machine.program(&LIMITS[..1], SOURCE_EVERY_MIN, &source);
    assert_eq!(amounts(&program), [100]);
    source.fails();
    machine.clock.advance(Span::from_secs(5));
    machine.keep(&[("requests_per_minute", 250)], START.plus(Span::from_secs(5)));
    let reads = source.reads();
    // The first of them may have begun before the file was written.
    while source.reads() < reads + 3 {
        std::thread::sleep(LOCK_PAUSE);
    }
    assert_eq!(amounts(&program), [250]);
    let next = machine.program(&LIMITS[..1], EVERY, &source);
    assert_eq!(amounts(&next), [250]);
}

/// A3: a limit that was added to the config has no amount yet, however fresh the reading is.
#[test]
fn a_limit_that_was_added_is_read_at_once() {
    let (machine, source) = (Machine::new(), Manual::new("250"));
    machine.keep(&[("requests_per_minute", 100)], START);
    let program = machine.program(&LIMITS[..1], EVERY, &source);
    assert_eq!((amounts(&program), source.reads()), (vec![100], 0));
    let program = machine.program(&LIMITS, EVERY, &source);
    assert_eq!((amounts(&program), source.reads()), (vec![250, 250], 1));
    let program = machine.program(&LIMITS, EVERY, &source);
    assert_eq!((amounts(&program), source.reads()), (vec![250, 250], 1));
}

/// A3: of programs that start together one reads; the others go on with the earlier amount.
#[test]
fn programs_go_on_while_another_one_reads() {
    let (machine, source) = (Machine::new(), Manual::new("250"));
    machine.keep(&[("requests_per_minute", 100)], START);
    machine.clock.advance(Span::from_secs(3_000));
    let reading = machine.kept().try_lock(START.plus(Span::from_secs(3_000))).unwrap();
    let program = machine.program(&LIMITS[..1], EVERY, &source);
    assert_eq!((amounts(&program), source.reads()), (vec![100], 0));
    drop(reading);
}

/// A3: a program that was stopped while it read does not keep the others from reading.
#[test]
fn a_stopped_program_does_not_freeze_the_amounts() {
    let (machine, source) = (Machine::new(), Manual::new("250"));
    machine.keep(&[("requests_per_minute", 100)], START);
    let stopped = machine.kept().try_lock(START).unwrap();
    machine.clock.advance(Span::from_secs(3_000));
    let program = machine.program(&LIMITS[..1], EVERY, &source);
    assert_eq!((amounts(&program), source.reads()), (vec![250], 1));
    drop(stopped);
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// T19: readings of sources that are no longer in use do not fill the folder.
#[test]
fn readings_that_are_not_used_are_removed() {
    let (machine, source) = (Machine::new(), Manual::new("250"));
    let before = |name: &str, days: u64| {
        let file = File::create(machine.folder.path().join(name)).unwrap();
        let at = START.as_micros() - Span::from_secs(days * 86_400).as_micros();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_micros(at)).unwrap();
    };
    (0..10).for_each(|n| before(&format!("{n}"), 31));
    before("in-use", 29);
    let program = machine.program(&LIMITS[..1], EVERY, &source);
    drop(program);
    assert_eq!(files(machine.folder.path()), 3, "the reading, its lock, and the one in use");
}

#[test]
fn the_pause_never_exceeds_the_configured_interval() {
    let every = Span::from_secs(300);
    for _ in 0..1_000 {
        let calm = pause(every, false);
        assert!(calm <= every && calm > Span::from_secs(239), "{calm}");
        let failed = pause(every, true);
        assert!(failed <= Span::from_secs(30) && failed > Span::from_secs(23), "{failed}");
        assert!(pause(SOURCE_EVERY_MIN, true) <= SOURCE_EVERY_MIN);
    }
}
