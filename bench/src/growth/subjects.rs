//! The subjects of a policy: time of a take, and memory.

use anyhow::{Context, Result};

use super::Extent;
use super::contenders::{ours, theirs};
use super::curve::Growth;
use crate::contender::Contender;
use crate::keys::{Keys, VISITS};
use crate::rounds::duel;

const SIZES: [u32; 4] = [1, 10_000, 1_000_000, 10_000_000];
const SIZES_IF_QUICK: [u32; 4] = [1, 10_000, 100_000, 1_000_000];
/// With fewer subjects, memory that was used before hides them.
const WEIGHED_FROM: u32 = 1_000_000;

pub(super) fn measure(extent: Extent) -> Result<Vec<Growth>> {
    let mut take = Growth::new("subjects", "take", "ns CPU", "governor");
    let mut memory = Growth::new("subjects", "memory of a subject", "bytes", "governor");
    for size in if extent.quick { SIZES_IF_QUICK } else { SIZES } {
        eprintln!("growth: {size} subjects");
        let keys = Keys::new(size, VISITS);
        let (ours, our_bytes) = weighed(|| ours(1, &keys))?;
        let (theirs, their_bytes) = weighed(|| theirs(1, &keys))?;
        let [our, their] = duel([&ours, &theirs], 1, extent.effort)?;
        take.at(size, our.cpu, their.cpu);
        if size >= WEIGHED_FROM {
            memory.at(size, our_bytes / f64::from(size), their_bytes / f64::from(size));
        }
    }
    Ok(vec![take, memory])
}

/// What it makes, and by how many bytes the process has grown meanwhile.
fn weighed(make: impl FnOnce() -> Contender) -> Result<(Contender, f64)> {
    let before = resident_bytes()?;
    let made = make();
    Ok((made, resident_bytes()? - before))
}

fn resident_bytes() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("the process's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().context("VmRSS")?;
    Ok(kilobytes * 1_024.0)
}
