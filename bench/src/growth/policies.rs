//! The policies of a config: starting a limiter with them, and a take under one of them by its name.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::Result;
use tollway::{Config, Limiter};

use super::Extent;
use super::contenders::{governor, granted, limit};
use super::curve::Growth;
use crate::contender::Contender;
use crate::keys::{Keys, VISITS};
use crate::rounds::{duel, median};
use crate::stopwatch::Lap;
use crate::work::Work;

const SIZES: [u32; 4] = [1, 100, 1_000, 10_000];
const STARTS: usize = 5;

pub(super) fn measure(extent: Extent) -> Result<Vec<Growth>> {
    let mut start = Growth::new("policies", "start", "ms", "-");
    let mut take = Growth::new("policies", "take by name", "ns CPU", "governor in a HashMap");
    for size in SIZES {
        eprintln!("growth: {size} policies");
        let keys: Arc<[String]> = (0..size).map(|number| format!("policy-{number:05}")).collect();
        let keys = Keys { keys, ..Keys::new(size, VISITS) };
        let text = config(&keys);
        let times: Result<Vec<f64>> = (0..STARTS).map(|_| timed_start(&text).map(|(_, ms)| ms)).collect();
        start.at(size, median(times?), 0.0);
        let (limiter, _) = timed_start(&text)?;
        let ours = Contender::new("tollway", Work::OneLimit, &keys, move || {
            let limiter = limiter.clone();
            move |name| granted(limiter.try_take(name).subject("ann").now())
        })
        .warm_up();
        let theirs = theirs(&keys).warm_up();
        let [our, their] = duel([&ours, &theirs], 1, extent.effort)?;
        take.at(size, our.cpu, their.cpu);
    }
    Ok(vec![start, take])
}

fn config(names: &Keys) -> String {
    let mut text = String::new();
    for name in &*names.keys {
        writeln!(text, "[policies.{name}]\nlimits = [\"{}\"]", limit(1))
            .expect("a string takes all that is written");
    }
    text
}

/// A limiter with this config, and the milliseconds that it took to read and start it.
fn timed_start(text: &str) -> Result<(Limiter, f64)> {
    let lap = Lap::start();
    let limiter = Limiter::builder().config(&Config::parse(text)?)?.build();
    Ok((limiter, lap.time().as_secs_f64() * 1e3))
}

fn theirs(keys: &Keys) -> Contender {
    let limiters: HashMap<String, _> = keys.keys.iter().map(|name| (name.clone(), governor(1))).collect();
    let (limiters, subject) = (Arc::new(limiters), "ann".to_owned());
    Contender::new("governor in a HashMap", Work::OneLimit, keys, move || {
        let (limiters, subject) = (Arc::clone(&limiters), subject.clone());
        move |name: &String| limiters[name].check_key(&subject).is_ok()
    })
}
