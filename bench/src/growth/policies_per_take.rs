//! The policies of one take, charged all or nothing.

use anyhow::Result;
use tollway::Limiter;

use super::Extent;
use super::contenders::{granted, limit, theirs};
use super::curve::Growth;
use crate::contender::Contender;
use crate::keys::{Keys, VISITS};
use crate::rounds::duel;
use crate::work::Work;

const SIZES: [u32; 4] = [1, 2, 3, 4];
const OTHERS: [&str; 3] = ["second", "third", "fourth"];
const SUBJECTS: u32 = 10_000;

pub(super) fn measure(extent: Extent) -> Result<Vec<Growth>> {
    let keys = Keys::new(SUBJECTS, VISITS);
    let mut take = Growth::new("policies of it", "take", "ns CPU", "governor");
    for size in SIZES {
        eprintln!("growth: {size} policies in one take");
        let (ours, theirs) = (ours(size as usize - 1, &keys), theirs(size as usize, &keys));
        let [our, their] = duel([&ours, &theirs], 1, extent.effort)?;
        take.at(size, our.cpu, their.cpu);
    }
    Ok(vec![take])
}

/// A take under one policy and so many others.
fn ours(others: usize, keys: &Keys) -> Contender {
    let limit = limit(1);
    let with = |builder: tollway::LimiterBuilder, name| {
        builder.policy(name, [limit.as_str()]).expect("the limit is right")
    };
    let limiter = OTHERS.into_iter().fold(with(Limiter::builder(), "first"), with).build();
    let handle = limiter.policy("first").expect("it was just built");
    Contender::new("tollway", Work::OneLimit, keys, move || {
        let handle = handle.clone();
        move |key: &String| {
            let take = handle.try_take().subject(key);
            granted(OTHERS[..others].iter().fold(take, |take, other| take.and(other).subject(key)).now())
        }
    })
    .warm_up()
}
