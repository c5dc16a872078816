//! Golden files: a fixed sequence of operations, whose stored bytes must never change.
//!
//! Every store plays [`steps`] under a manual clock and compares what it has stored, byte for byte, with a file under
//! `tests/golden`. Permit ids and times are fixed. [`steps`] and [`play`] are the only places that name the engine's
//! types, so a change of those types adapts one file.

mod steps;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use tollway_core::{Begun, Decision, Outcome, SettingChange, Store, TakeOutcome, Timestamp};

use crate::{ManualClock, wait_for};

pub use steps::{LATER, START, Step, late_steps, steps};

/// Environment variable that makes [`compare`] write the expected files instead.
const UPDATE: &str = "UPDATE_GOLDEN";

/// Compares with the expected file, byte for byte. With `UPDATE_GOLDEN=1` it writes the file.
///
/// # Panics
///
/// If the file is missing or its bytes differ.
pub fn compare(path: &Path, found: impl AsRef<[u8]>) {
    let found = found.as_ref();
    if std::env::var_os(UPDATE).is_some() {
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder for the file");
        return fs::write(path, found).expect("the expected file can be written");
    }
    let Ok(expected) = fs::read(path) else {
        panic!("{} is missing; {UPDATE}=1 writes it", path.display());
    };
    assert!(
        expected == found,
        "{} differs: bytes that are stored, signed or sent must not change\n{}",
        path.display(),
        first_difference(&String::from_utf8_lossy(&expected), &String::from_utf8_lossy(found))
    );
}

fn first_difference(expected: &str, found: &str) -> String {
    let lines = expected.lines().map(Some).chain([None]).zip(found.lines().map(Some).chain([None]));
    let differing = lines.enumerate().find(|(_, (expected, found))| expected != found);
    match differing {
        Some((index, (expected, found))) => {
            format!("line {}\nexpected: {expected:?}\n   found: {found:?}", index + 1)
        }
        None => format!("{} bytes expected, {} found", expected.len(), found.len()),
    }
}

/// Applies the steps one by one at their times. Returns one line of text for each outcome.
pub fn play(store: &dyn Store, clock: &ManualClock, steps: &[Step]) -> String {
    let mut outcomes = String::new();
    for step in steps {
        clock.set(step.time);
        let answer = store.apply(std::slice::from_ref(&step.operation));
        let outcome = wait_for(answer).unwrap_or_else(|error| panic!("{}: {error}", step.name)).remove(0);
        let _ = writeln!(outcomes, "{}: {}", step.name, in_words(&outcome));
    }
    outcomes
}

/// Sets two limits, one with a burst, and clears a third.
pub fn set_limits(store: &dyn Store) {
    let settings = store.settings().expect("this store keeps settings");
    for (limit, amounts) in [
        ("rpm", Some((50, None))),
        ("gone", Some((1, None))),
        ("tpm", Some((700, Some(900)))),
        ("gone", None),
    ] {
        let [policy, limit] = ["adobe", limit].map(|name| tollway_core::Name::new(name).expect("a name"));
        wait_for(settings.change(SettingChange { policy, limit, amounts })).expect("the store answers");
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decided(decision) => decision_in_words(decision),
        Outcome::Begun(Begun::Now) => "begin now".to_owned(),
        Outcome::Begun(Begun::Early(wait)) => format!("begin in {} us", wait.as_micros()),
        Outcome::Begun(Begun::Again(decision)) => format!("taken again, {}", decision_in_words(decision)),
        Outcome::Settled(settled) => format!("settled {settled:?}").to_lowercase(),
        Outcome::Done(held) => format!("done, held {held}"),
        Outcome::Renewed(held) => format!("renewed, held {held}"),
        Outcome::Peeked(charges) => {
            let one = |reading: &tollway_core::Reading| {
                let (resets, as_of) = (micros(reading.resets_at), micros(reading.as_of));
                format!(
                    "{}/{} left {} resets {resets} as of {as_of}",
                    reading.used, reading.capacity, reading.remaining
                )
            };
            let readings = charges.iter().flat_map(|charge| &charge.readings);
            readings.map(one).collect::<Vec<_>>().join("; ")
        }
        Outcome::Reset => "reset".to_owned(),
        Outcome::Learned(learned) => format!("learned {learned:?}"),
        Outcome::Refused(refusal) => format!("refused: {refusal}"),
    }
}

fn decision_in_words(decision: &Decision) -> String {
    match &decision.outcome {
        TakeOutcome::Granted(grant) => format!(
            "granted {} at {} good until {} granted at {} repeated {} would deny {:b}",
            grant.permit.0,
            micros(grant.at),
            micros(grant.good_until),
            micros(grant.granted_at),
            decision.repeated,
            decision.would_deny
        ),
        TakeOutcome::Denied(denial) => {
            format!(
                "denied until {} by limit {} of policy {}",
                micros(denial.retry_at),
                denial.limit,
                denial.charge
            )
        }
    }
}

fn micros(time: Timestamp) -> u64 {
    time.as_micros()
}
