//! The disk alone: how often a second a small write can be made durable.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::fs::statfs;

use crate::stopwatch::Lap;

/// A page of SQLite.
const WRITE_BYTES: usize = 4_096;
/// As many pages as SQLite's log has before it starts again at its beginning.
const WRITES: u64 = 1_000;

/// File systems in memory, where a sync costs nothing (`statfs`: tmpfs, ramfs).
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Checks that temporary files are on a disk: otherwise nothing here would be durable.
pub(super) fn check() -> Result<()> {
    let folder = std::env::temp_dir();
    let kind = statfs(&folder).with_context(|| folder.display().to_string())?.f_type;
    ensure!(
        !IN_MEMORY.contains(&i64::from(kind)),
        "{} is in memory; name a folder on a disk in $TMPDIR",
        folder.display()
    );
    Ok(())
}

/// Writes a page and waits for the disk, one page after the other. The file has its size already, as SQLite's log has most of
/// the time: a file that grows takes longer.
pub(super) fn syncs(lasts: Duration) -> Result<f64> {
    let (file, page) = (tempfile::tempfile()?, [7; WRITE_BYTES]);
    let write = |number: u64| file.write_all_at(&page, number % WRITES * WRITE_BYTES as u64);
    (0..WRITES).try_for_each(write)?;
    file.sync_all()?;
    let (lap, mut syncs) = (Lap::start(), 0);
    while lap.time() < lasts {
        write(syncs)?;
        file.sync_data()?;
        syncs += 1;
    }
    Ok(syncs as f64 / lap.time().as_secs_f64())
}
