//! `pipeline dead list --group-by`: how many dead letters of each kind.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollway_pipeline::{Filter, Job, JobId};

use super::list::{GroupBy, each_page};
use crate::failure::{Exit, Failure};
use crate::humanize::{count, counted};
use crate::layout::{COLUMNS, cut, printable};
use crate::output::{FAINT, Output};
use crate::pipeline::session::Session;

/// How many kinds are told apart. Errors with a number or a time in them may be as many as there are dead letters.
const KINDS_MAX: usize = 10_000;

/// Dead letters of one kind.
#[derive(Clone, Copy)]
struct Kind {
    jobs: u64,
    example: JobId,
}

/// Counts of kinds.
#[derive(Default)]
struct Kinds {
    known: HashMap<String, Kind>,
    /// Dead letters of further kinds.
    others: u64,
}

impl Kinds {
    fn add(&mut self, name: &str, job: JobId) {
        if let Some(kind) = self.known.get_mut(name) {
            kind.jobs += 1;
        } else if self.known.len() < KINDS_MAX {
            self.known.insert(name.to_owned(), Kind { jobs: 1, example: job });
        } else {
            self.others += 1;
        }
    }

    /// The most frequent first.
    fn sorted(&self) -> Vec<(&str, Kind)> {
        let mut kinds: Vec<(&str, Kind)> =
            self.known.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        kinds.sort_by(|one, other| (other.1.jobs, one.1.example).cmp(&(one.1.jobs, other.1.example)));
        kinds
    }
}

fn name(by: GroupBy, job: &Job) -> &str {
    match by {
        GroupBy::Error => &job.error,
        GroupBy::Stage => job.stage.as_str(),
        GroupBy::Group => job.group.as_deref().unwrap_or_default(),
    }
}

pub(super) fn run(by: GroupBy, filter: Filter, limit: u64, session: &Session<'_>) -> Result<Exit, Failure> {
    let mut kinds = Kinds::default();
    each_page(session, &filter, |jobs| {
        jobs.iter().for_each(|job| kinds.add(name(by, job), job.id));
        Ok(true)
    })?;
    let sorted = kinds.sorted();
    let shown = &sorted[..sorted.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let what = match by {
        GroupBy::Error => "error",
        GroupBy::Stage => "stage",
        GroupBy::Group => "group",
    };
    let output = session.context.output();
    if output.is_json() {
        let row = |(name, kind): &(&str, Kind)| -> Value {
            json!({ what: name, "jobs": kind.jobs, "example": kind.example.get() })
        };
        let rows: Vec<Value> = shown.iter().map(row).collect();
        output.json(&json!({ "by": what, "kinds": sorted.len(), "others": kinds.others, "counts": rows }))?;
        return Ok(Exit::DONE);
    }
    write(what, shown, output)?;
    if sorted.len() > shown.len() {
        output.note(format_args!(
            "{} of {}; --limit shows more",
            count(limit),
            counted(sorted.len() as u64, "lines")
        ));
    }
    if kinds.others > 0 {
        let others = counted(kinds.others, "dead letters");
        output.note(format_args!(
            "{others} more, of further kinds than the {} counted",
            count(KINDS_MAX as u64)
        ));
    }
    Ok(Exit::DONE)
}

fn write(what: &str, kinds: &[(&str, Kind)], output: &Output) -> Result<(), Failure> {
    if kinds.is_empty() {
        return output.line("no dead letters");
    }
    let numbers =
        |number: fn(&Kind) -> String| -> Vec<String> { kinds.iter().map(|(_, kind)| number(kind)).collect() };
    let (jobs, examples) = (numbers(|kind| count(kind.jobs)), numbers(|kind| kind.example.to_string()));
    let width =
        |texts: &[String], heading: &str| texts.iter().map(String::len).max().unwrap_or(0).max(heading.len());
    let (wide, example_wide) = (width(&jobs, "jobs"), width(&examples, "example"));
    output.line(format_args!("{FAINT}{:>wide$}  {:>example_wide$}  {what}{FAINT:#}", "jobs", "example"))?;
    for ((jobs, example), (name, _)) in jobs.iter().zip(&examples).zip(kinds) {
        let name = if name.is_empty() { "(none)".to_owned() } else { printable(name) };
        let name = cut(&name, COLUMNS - wide - example_wide - 4);
        output.line(format_args!("{jobs:>wide$}  {example:>example_wide$}  {name}"))?;
    }
    Ok(())
}
