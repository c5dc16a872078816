//! The counts of past minutes and hours.

use tollway_core::{Retry, Timestamp};
use tollway_pipeline::engine::samples::{HOUR_MICROS, forgotten_before, minute_of};
use tollway_pipeline::engine::stored::{micros, time};
use tollway_pipeline::{EngineError, Sample};

use super::Inner;
use super::error::storage;
use super::table::{Guard, Item, PART, SORT, Write, read_text, text};

const SAMPLES: &str = "samples";
const STAGES: &str = "stages";

/// More samples than are kept: a minute for an hour, and an hour for 30 days.
const SAMPLES_MAX: usize = 2_000;

impl Inner {
    pub(super) async fn record(&self, now: Timestamp) -> Result<(), EngineError> {
        let table = self.table().await?;
        let stages = serde_json::to_string(&self.counts().await?)
            .map_err(|error| storage(Retry::Useless, error.to_string()))?;
        let item = Item::from([
            (PART.to_owned(), text(SAMPLES)),
            (SORT.to_owned(), text(&sort_of(minute_of(now)))),
            (STAGES.to_owned(), text(&stages)),
        ]);
        table.write(vec![Write::Put(item, Guard::Absent)]).await?;
        let [all, minutes] = forgotten_before(now);
        let (items, _) = table.list(SAMPLES, None, SAMPLES_MAX).await?;
        for at in items.iter().filter_map(at) {
            if at < all || at < minutes && at % HOUR_MICROS != 0 {
                table.write(vec![Write::Delete((SAMPLES.to_owned(), sort_of(at)), Guard::Any)]).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn samples(&self, since: Timestamp) -> Result<Vec<Sample>, EngineError> {
        let (items, _) = self.table().await?.list(SAMPLES, None, SAMPLES_MAX).await?;
        let sample = |item: &Item| {
            let at = at(item).filter(|at| *at >= micros(since))?;
            // A sample that a newer version wrote otherwise is left out.
            let stages = serde_json::from_str(read_text(item, STAGES)?).ok()?;
            Some(Sample { at: time(at), stages })
        };
        Ok(items.iter().filter_map(sample).collect())
    }
}

fn sort_of(at: i64) -> String {
    format!("{at:020}")
}

fn at(item: &Item) -> Option<i64> {
    read_text(item, SORT)?.parse().ok()
}
