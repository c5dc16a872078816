//! Gives the disk back what purged jobs have left. Files that were made before this was possible need `compact`.

use super::error::Failure;
use super::session::Session;
use super::writer::{Durability, Writer};
use crate::EngineAnswer;

/// How many free pages stay for the next jobs: 4 MiB.
const PAGES_KEPT: u64 = 1_024;

/// How many pages are given back in one transaction, which workers wait for: 1 MiB.
const PAGES_AT_ONCE: u64 = 256;

/// How many transactions there are at a time, so that the log stays small: 256 MiB each minute.
const STEPS_MAX: usize = 256;

/// Gives free pages back, in steps between which workers write.
pub(super) fn give_back(writer: Writer) -> EngineAnswer<()> {
    Box::pin(async move {
        for _ in 0..STEPS_MAX {
            if !writer.ask(Durability::Process, 0, give_back_some).await? {
                return Ok(());
            }
        }
        Ok(())
    })
}

/// Whether there are more.
fn give_back_some(session: &mut Session<'_>) -> Result<bool, Failure> {
    const INCREMENTAL: u64 = 2;
    let connection = session.connection;
    let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, u64>(0));
    if pragma("auto_vacuum")? != INCREMENTAL {
        return Ok(false);
    }
    let too_many = pragma("freelist_count")?.saturating_sub(PAGES_KEPT);
    let now = too_many.min(PAGES_AT_ONCE);
    if now > 0 {
        // Every row is a page: it is given back when the row is asked for.
        let mut vacuum = connection.prepare(&format!("PRAGMA incremental_vacuum({now})"))?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(too_many > now)
}
