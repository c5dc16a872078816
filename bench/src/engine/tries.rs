//! Takes that do not wait: nanoseconds each.

use anyhow::Result;

use crate::contender::Contender;
use crate::keys::{Keys, VISITS};
use crate::report::{Better, Report, Row, Wanted};
use crate::rivals::{governor, leaky_bucket, limitador, throttlecrab, tollway};
use crate::rounds::{Effort, duel};
use crate::work::{Time, Work};

const THREADS: [usize; 2] = [1, 2];
const MANY_KEYS: u32 = 100_000;

/// Ours at most this much of governor's time with many keys.
const WANTED_OF_GOVERNOR: f64 = 0.8;
/// Ours at most this much of governor's keyed limiter, two threads on one key.
const WANTED_OF_GOVERNOR_HOT: f64 = 1.0;
/// Ours at most this much of limitador's time.
const WANTED_OF_LIMITADOR: f64 = 0.2;
/// Six limits at most this much of one limit's time.
const WANTED_OF_ONE_LIMIT: f64 = 1.8;
/// Seven limits at most this much of six limits' time.
const WANTED_OF_SIX_LIMITS: f64 = 1.3;
/// A take with an id at most this much of a plain take's time.
const WANTED_WITH_ID: f64 = 5.0;
/// A take under two policies at most this much of a plain take's time.
const WANTED_OF_TWO_POLICIES: f64 = 3.0;

pub(crate) fn measure(effort: Effort, report: &mut Report) -> Result<()> {
    let time = Time::Machine;
    for keys in [Keys::new(1, VISITS), Keys::new(MANY_KEYS, VISITS)] {
        let one = Work::OneLimit;
        let ours = tollway::contender(one, time, &keys).warm_up();
        let mut rivals = vec![governor::keyed(one, time, &keys), throttlecrab::contender(one, time, &keys)];
        rivals.push(limitador::contender(one, &keys));
        if keys.keys.len() == 1 {
            rivals.insert(0, governor::direct(one, time, &keys));
            rivals.insert(2, leaky_bucket::contender(one, &keys));
        }
        for rival in rivals {
            against(&ours, &rival.warm_up(), effort, report)?;
        }

        let six = Work::SixLimits;
        let ours_six = tollway::contender(six, time, &keys).warm_up();
        let mut ours = ours;
        ours.name = "tollway one limit";
        against(&ours_six, &ours, effort, report)?;
        drop(ours);
        for rival in [governor::keyed(six, time, &keys), limitador::contender(six, &keys)] {
            against(&ours_six, &rival.warm_up(), effort, report)?;
        }
        let mut ours_six = ours_six;
        ours_six.name = "tollway six limits";
        against(&tollway::contender(Work::SevenLimits, time, &keys).warm_up(), &ours_six, effort, report)?;
    }

    slow_path(effort, report)?;

    let (denied, keys) = (Work::Exhausted, Keys::new(1, VISITS));
    let ours = tollway::contender(denied, time, &keys).warm_up();
    let rivals = [
        governor::direct(denied, time, &keys),
        governor::keyed(denied, time, &keys),
        leaky_bucket::contender(denied, &keys),
        throttlecrab::contender(denied, time, &keys),
        limitador::contender(denied, &keys),
    ];
    rivals.into_iter().try_for_each(|rival| against(&ours, &rival.warm_up(), effort, report))
}

/// The cost of a take that needs more than a policy and a subject, compared with one that does not. Rivals have no such
/// takes, so no rows here.
fn slow_path(effort: Effort, report: &mut Report) -> Result<()> {
    let (time, keys) = (Time::Machine, Keys::new(MANY_KEYS, VISITS));
    let mut one_limit = tollway::contender(Work::OneLimit, time, &keys).warm_up();
    one_limit.name = "tollway plain take";
    for work in [Work::NamedCost, Work::WithId, Work::TwoPolicies, Work::NewSubject] {
        against(&tollway::slow_path(work, time, &keys).warm_up(), &one_limit, effort, report)?;
    }
    Ok(())
}

fn against(ours: &Contender, rival: &Contender, effort: Effort, report: &mut Report) -> Result<()> {
    let (work, keys) = (ours.work, &ours.keys);
    for threads in THREADS {
        let case = format!("{}, {}, {}", work.label(), keys.label(), threads_label(threads));
        eprintln!("try: {case}, against {}", rival.name);
        let [our, their] = duel([ours, rival], threads, effort)?;
        let row = |unit, ours, theirs| Row::new(&case, rival.name, unit, Better::Lower, ours, theirs);
        report.push(
            row("ns CPU", our.cpu, their.cpu)
                .wanted(wanted(work, rival.name, keys, threads).map(Wanted::Ratio)),
        );
        if threads > 1 {
            report.push(row("ns wall", our.wall, their.wall));
        }
    }
    Ok(())
}

fn wanted(work: Work, rival: &str, keys: &Keys, threads: usize) -> Option<f64> {
    match rival {
        "tollway plain take" if work == Work::WithId => Some(WANTED_WITH_ID),
        "tollway plain take" if work == Work::TwoPolicies => Some(WANTED_OF_TWO_POLICIES),
        "tollway six limits" => Some(WANTED_OF_SIX_LIMITS),
        "governor keyed" if keys.keys.len() > 1 => Some(WANTED_OF_GOVERNOR),
        "governor keyed" if threads > 1 => Some(WANTED_OF_GOVERNOR_HOT),
        "limitador" => Some(WANTED_OF_LIMITADOR),
        "tollway one limit" => Some(WANTED_OF_ONE_LIMIT),
        _ => None,
    }
}

fn threads_label(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}
