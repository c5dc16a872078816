//! The counts of every stage. They change in the transactions that change jobs, so they are exact whatever dies.
//!
//! All counters are attributes of one item, of which there are several: a transaction adds to one of them, so that processes
//! seldom meet, and the counts are the sums. Since each transaction touches one item, no reader sees half of one.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tollway_core::Name;
use tollway_pipeline::engine::counters::{Kind, put};
use tollway_pipeline::{EngineError, StageCounts, State};

use super::table::{Item, Table, Write, read_number};

const PART: &str = "counters";

/// How many items there are.
const ITEMS: u64 = 16;

/// How old counts may be that only other processes have changed.
const FRESH: Duration = Duration::from_secs(2);

/// The least time between two reads.
const READ_EVERY: Duration = Duration::from_millis(100);

/// What a transaction changes.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<String, i64>);

impl Tally {
    pub(super) fn count(&mut self, stage: &Name, kind: Kind, n: i64) {
        *self.0.entry(format!("{}/{}", kind.number(), stage.as_str())).or_default() += n;
    }

    /// A job changes its state.
    pub(super) fn moved(&mut self, stage: &Name, from: State, to: State) {
        if from != to {
            self.count(stage, Kind::Jobs(from), -1);
            self.count(stage, Kind::Jobs(to), 1);
        }
    }

    /// The part of the transaction.
    pub(super) fn write(self) -> Option<Write> {
        let numbers: Vec<(String, i64)> = self.0.into_iter().filter(|(_, n)| *n != 0).collect();
        // Every hasher has keys of its own.
        let item = RandomState::new().build_hasher().finish() % ITEMS;
        (!numbers.is_empty()).then(|| Write::Add((PART.to_owned(), format!("{item:02}")), numbers))
    }
}

#[derive(Default)]
struct Known {
    counts: Vec<StageCounts>,
    read_at: Option<Instant>,
    /// This process has changed them since.
    changed: bool,
}

/// The counts, as this process last read them.
#[derive(Default)]
pub(super) struct Counts {
    known: Mutex<Known>,
    turn: tokio::sync::Mutex<()>,
}

impl Counts {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction has changed them.
    pub(super) fn changed(&self) {
        self.known().changed = true;
    }

    /// The counts of every stage.
    pub(super) async fn read(&self, table: &Table) -> Result<Vec<StageCounts>, EngineError> {
        let _turn = self.turn.lock().await;
        let read_at = {
            let mut known = self.known();
            let fresh = known.read_at.is_some_and(|at| at.elapsed() < FRESH);
            if fresh && !known.changed {
                return Ok(known.counts.clone());
            }
            known.changed = false;
            known.read_at
        };
        if let Some(at) = read_at {
            sleep_until(at + READ_EVERY).await;
        }
        let items = read_items(table).await.inspect_err(|_| self.changed())?;
        let counts = sums(&items);
        let mut known = self.known();
        (known.counts, known.read_at) = (counts.clone(), Some(Instant::now()));
        Ok(counts)
    }
}

/// The items, one after the other: others may be written in between.
pub(super) async fn read_items(table: &Table) -> Result<Vec<Item>, EngineError> {
    let most = usize::try_from(ITEMS).unwrap_or(usize::MAX);
    Ok(table.list(PART, None, most).await?.0)
}

/// The counts of every stage.
pub(super) fn sums(items: &[Item]) -> Vec<StageCounts> {
    let mut sums: BTreeMap<(Name, i64), i64> = BTreeMap::new();
    for item in items {
        for name in item.keys() {
            let Some((kind, stage)) = name.split_once('/') else { continue };
            let (Ok(kind), Ok(stage)) = (kind.parse(), Name::new(stage)) else { continue };
            *sums.entry((stage, kind)).or_default() += read_number::<i64>(item, name).unwrap_or(0);
        }
    }
    let mut stages: BTreeMap<Name, StageCounts> = BTreeMap::new();
    for ((stage, kind), sum) in sums {
        let counts = stages.entry(stage.clone()).or_insert_with(|| StageCounts::empty(stage));
        put(counts, kind, u64::try_from(sum).unwrap_or(0));
    }
    stages.into_values().collect()
}
