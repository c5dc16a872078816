//! The one sentence above the table: what holds work up, when pipelines are done, and what went wrong.

use crate::snapshot::{Level, Mode, PipelineRow, Row, Sentence, Snapshot};

/// A limit this full is worth a word, in percent.
const NEARLY_FULL: u64 = 80;

/// The last points of a row's line that are looked at: a minute.
const RECENT_POINTS: usize = 12;

/// What a newcomer needs to know of a snapshot.
pub(crate) fn sentence(snapshot: &Snapshot) -> Sentence {
    let (first, mut level) = of_limits(snapshot);
    let mut parts = vec![first];
    if snapshot.process.store_away_since.is_some() {
        parts.push(match &*snapshot.process.store_nodes_away {
            [] => "the store does not answer, and takes are decided without it".to_owned(),
            nodes => format!(
                "takes on {} of the store, which does not answer, are decided without it",
                nodes.join(", ")
            ),
        });
        level = Level::Trouble;
    }
    for pipeline in &snapshot.pipelines {
        parts.extend(of_pipeline(pipeline, snapshot.at));
    }
    let dead: u64 = snapshot.pipelines.iter().map(|pipeline| pipeline.dead).sum();
    if dead > 0 {
        parts.push(counted(dead, "dead letter"));
        level = level.max(Level::Attention);
    }
    let text = parts.join("; ");
    Sentence { text, level }
}

/// The bottleneck, or that there is none.
fn of_limits(snapshot: &Snapshot) -> (String, Level) {
    let weight = |row: &&Row| (rank(row), row.waiting, percent(row));
    let Some(row) = snapshot.rows.iter().max_by_key(weight) else {
        return ("no limit was used yet".to_owned(), Level::Ok);
    };
    let name = quoted(&row.policy);
    let (what, level) = match rank(row) {
        Rank::Stopped => (format!("{name} is stopped: its limit {} was set to 0", row.limit), Level::Trouble),
        Rank::Held => {
            (format!("{name} is held by the vendor{}", until_next(row, snapshot.at)), Level::Trouble)
        }
        Rank::Full | Rank::WaitedFor => {
            let used =
                if percent(row) >= 100 { "used up".to_owned() } else { format!("{} % used", percent(row)) };
            let waiting = match row.waiting {
                0 => String::new(),
                waiting => format!(", {waiting} waiting"),
            };
            let whose = if row.subjects.is_some() { " for a subject" } else { "" };
            let text =
                format!("{name} is the bottleneck{whose}: {used}{waiting}{}", until_next(row, snapshot.at));
            (text, Level::Attention)
        }
        Rank::Free if percent(row) >= NEARLY_FULL => {
            (format!("{name} is nearly used up: {} %", percent(row)), Level::Attention)
        }
        Rank::Free => match used_up_lately(&snapshot.rows) {
            Some(row) => {
                let (name, now) = (quoted(&row.policy), percent(row));
                (format!("{name} was used up within the last minute, now {now} %"), Level::Attention)
            }
            None => {
                (format!("no limit holds calls up; the fullest is {name} with {} %", percent(row)), Level::Ok)
            }
        },
    };
    (what, level)
}

/// The limit that was used up most of the last minute. Between two windows nothing waits, and it still is the bottleneck.
fn used_up_lately(rows: &[Row]) -> Option<&Row> {
    let full = |row: &Row| row.spark.bytes().rev().take(RECENT_POINTS).filter(|point| *point == b'/').count();
    let denies = |row: &&Row| !row.modes.contains(&Mode::Shadow);
    rows.iter().filter(denies).max_by_key(|row| full(row)).filter(|row| full(row) > 0)
}

/// What a limit does to calls, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Free,
    Full,
    WaitedFor,
    Held,
    Stopped,
}

/// What the rank of a limit depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) stopped: bool,
    pub(crate) held: bool,
    pub(crate) shadow: bool,
    pub(crate) waiting: u64,
    pub(crate) full: bool,
}

impl Rank {
    /// What a limit does to calls. A shadow does nothing.
    pub(crate) fn of(facts: Facts) -> Self {
        match facts {
            Facts { stopped: true, .. } => Self::Stopped,
            Facts { held: true, .. } => Self::Held,
            Facts { shadow: true, .. } => Self::Free,
            Facts { waiting: 1.., .. } => Self::WaitedFor,
            Facts { full: true, .. } => Self::Full,
            _ => Self::Free,
        }
    }
}

fn rank(row: &Row) -> Rank {
    let has = |mode| row.modes.contains(&mode);
    Rank::of(Facts {
        stopped: has(Mode::Stopped),
        held: has(Mode::Held),
        shadow: has(Mode::Shadow),
        waiting: row.waiting,
        full: percent(row) >= 100,
    })
}

/// How full it is, in percent; above 100 if calls turned out to cost more than was taken.
fn percent(row: &Row) -> u64 {
    let used = row.used.unwrap_or(0);
    match row.capacity {
        0 => u64::from(used > 0) * 100,
        capacity => used.saturating_mul(100) / capacity,
    }
}

fn until_next(row: &Row, at: u64) -> String {
    let wait = row.held_until.map(|until| until.saturating_sub(at)).or(row.wait_ms);
    match wait {
        Some(wait) if wait > 0 => format!(", next call in {}", in_words(wait)),
        _ => String::new(),
    }
}

fn of_pipeline(pipeline: &PipelineRow, at: u64) -> Option<String> {
    let name = quoted(&pipeline.name);
    if pipeline.engine_away_since.is_some() {
        return Some(format!("the jobs of pipeline {name} cannot be reached"));
    }
    if let Some(ends_at) = pipeline.ends_at {
        return Some(format!("pipeline {name} done {}", at_time(ends_at, at)));
    }
    if let Some(why) = &pipeline.why_no_end {
        return Some(format!("pipeline {name} has no end in sight: {why}"));
    }
    let open = |stage: &crate::snapshot::StageRow| stage.ready + stage.running + stage.delayed + stage.held;
    let has_jobs = pipeline.stages.iter().any(|stage| open(stage) > 0);
    let done = pipeline.stages.iter().any(|stage| stage.done > 0);
    (!has_jobs && done).then(|| format!("all jobs of pipeline {name} are done"))
}

/// A time of day in UTC, or in how many days.
fn at_time(time: u64, now: u64) -> String {
    const DAY: u64 = 24 * 60;
    let minutes = time / 60_000;
    let (hour, minute) = (minutes % DAY / 60, minutes % 60);
    match (minutes / DAY).saturating_sub(now / 60_000 / DAY) {
        0 => format!("at {hour:02}:{minute:02} UTC"),
        1 => format!("tomorrow at {hour:02}:{minute:02} UTC"),
        days => format!("in {days} days"),
    }
}

fn in_words(millis: u64) -> String {
    match millis.div_ceil(1_000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn quoted(name: &str) -> String {
    format!("`{name}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::StageRow;

    fn row(policy: &str, used: u64) -> Row {
        Row { policy: policy.to_owned(), capacity: 200, used: Some(used), ..Row::default() }
    }

    /// 2026-09-21 13:20:00 UTC.
    const AT: u64 = 1_790_000_400_000 - 400_000;

    #[test]
    fn the_bottleneck_the_end_and_the_dead_letters_are_named() {
        let adobe = Row { waiting: 38, wait_ms: Some(11_400), ..row("adobe", 200) };
        let pdf = PipelineRow {
            name: "pdf".to_owned(),
            ends_at: Some(AT + 72 * 60_000),
            dead: 3,
            ..PipelineRow::default()
        };
        let snapshot = Snapshot {
            at: AT,
            rows: vec![row("other", 200), adobe],
            pipelines: vec![pdf],
            ..Snapshot::default()
        };
        let minutes = (AT / 60_000 + 72) % 1_440;
        let ends = format!("{:02}:{:02}", minutes / 60, minutes % 60);
        let wanted = format!(
            "`adobe` is the bottleneck: used up, 38 waiting, next call in 12 s; pipeline `pdf` done at {ends} UTC; 3 dead letters"
        );
        assert_eq!(sentence(&snapshot), Sentence { text: wanted, level: Level::Attention });
    }

    #[test]
    fn what_stops_calls_goes_first() {
        let with = |modes: Vec<Mode>, policy| Row { limit: "l".to_owned(), modes, ..row(policy, 1) };
        let say = |rows| sentence(&Snapshot { rows, ..Snapshot::default() });
        assert_eq!(say(vec![]).text, "no limit was used yet");
        assert_eq!(say(vec![row("a", 50)]).text, "no limit holds calls up; the fullest is `a` with 25 %");
        assert_eq!(say(vec![row("a", 170)]).text, "`a` is nearly used up: 85 %");
        let lately = Row { spark: "--AA/A".to_owned(), ..row("b", 20) };
        assert_eq!(say(vec![row("a", 50), lately]).text, "`b` was used up within the last minute, now 10 %");
        let stopped = say(vec![row("a", 200), with(vec![Mode::Stopped], "b"), with(vec![Mode::Held], "c")]);
        assert_eq!(
            (stopped.text.as_str(), stopped.level),
            ("`b` is stopped: its limit l was set to 0", Level::Trouble)
        );
        let shadow = Row { modes: vec![Mode::Shadow], ..row("s", 300) };
        assert!(say(vec![shadow]).text.starts_with("`s` is nearly used up"));
    }

    #[test]
    fn a_pipeline_without_jobs_is_done() {
        let stage = StageRow { done: 5, ..StageRow::default() };
        let done = PipelineRow { name: "p".to_owned(), stages: vec![stage], ..PipelineRow::default() };
        let snapshot = Snapshot { pipelines: vec![done], ..Snapshot::default() };
        assert_eq!(sentence(&snapshot).text, "no limit was used yet; all jobs of pipeline `p` are done");
    }
}
