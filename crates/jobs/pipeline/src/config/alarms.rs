//! `[pipelines.NAME.alarms]`: when a human is needed.

use tollway_config::Section;
use tollway_core::Timestamp;

use super::values;
use crate::run::alarm::AlarmRules;

/// The most dead letters, or attempts, that a rule may wait for.
const COUNT_MAX: u32 = 1_000_000;

pub(super) fn read(mut section: Section<'_>) -> AlarmRules {
    let usual = AlarmRules::default();
    let dead_letters = values::whole(&mut section, "dead_letters", 1..=COUNT_MAX, "10");
    let no_progress = section.span("no_progress", "15m");
    let failure_percent = values::whole(&mut section, "failure_percent", 1..=100, "50");
    let attempts_min = values::whole(&mut section, "attempts_min", 1..=COUNT_MAX, "20");
    let deadline = section.string("deadline", "2026-11-24T08:00:00Z");
    let deadline = deadline.and_then(|text| {
        let read = text.get_ref().parse::<jiff::Timestamp>();
        let read = read.ok().and_then(|time| u64::try_from(time.as_microsecond()).ok());
        if read.is_none() {
            let message = format!("{:?} is not a time", text.get_ref());
            section.problem("deadline", message, "write it like `deadline = \"2026-11-24T08:00:00Z\"`");
        }
        read.map(Timestamp::from_micros)
    });
    section.finish();
    AlarmRules {
        dead_letters: dead_letters.map_or(usual.dead_letters, u64::from),
        no_progress: no_progress.unwrap_or(usual.no_progress),
        failure_percent: failure_percent.map_or(usual.failure_percent, u64::from),
        attempts_min: attempts_min.map_or(usual.attempts_min, u64::from),
        deadline,
    }
}
