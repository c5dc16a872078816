//! The limits of a policy.

use anyhow::Result;

use super::Extent;
use super::contenders::{ours, theirs};
use super::curve::Growth;
use crate::keys::{Keys, VISITS};
use crate::rounds::duel;

/// An account of up to six limits is packed more densely than a larger one: a step between them would show here.
const SIZES: [u32; 5] = [1, 3, 6, 7, 12];
const SUBJECTS: u32 = 10_000;

pub(super) fn measure(extent: Extent) -> Result<Vec<Growth>> {
    let keys = Keys::new(SUBJECTS, VISITS);
    let mut take = Growth::new("limits", "take", "ns CPU", "governor");
    for size in SIZES {
        eprintln!("growth: {size} limits");
        let (ours, theirs) = (ours(size as usize, &keys), theirs(size as usize, &keys));
        let [our, their] = duel([&ours, &theirs], 1, extent.effort)?;
        take.at(size, our.cpu, their.cpu);
    }
    Ok(vec![take])
}
