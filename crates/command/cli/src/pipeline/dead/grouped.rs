//! `pipeline dead list --group-by`: how many dead letters of each kind.

use serde_json::json;
use tollway_pipeline::view::{DeadLetterKind, DeadLetterKinds, KINDS_MAX};

use crate::failure::{Exit, Failure};
use crate::humanize::{count, counted};
use crate::layout::{COLUMNS, cut, printable};
use crate::output::{FAINT, Output};

pub(super) fn print(found: &DeadLetterKinds, output: &Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(&json!(found))?;
        return Ok(Exit::DONE);
    }
    write(found.by.as_str(), &found.counts, output)?;
    if found.kinds > found.counts.len() {
        output.note(format_args!(
            "{} of {}; --limit shows more",
            count(found.counts.len() as u64),
            counted(found.kinds as u64, "lines")
        ));
    }
    if found.others > 0 {
        let others = counted(found.others, "dead letters");
        output.note(format_args!(
            "{others} more, of further kinds than the {} counted",
            count(KINDS_MAX as u64)
        ));
    }
    Ok(Exit::DONE)
}

fn write(what: &str, kinds: &[DeadLetterKind], output: &Output) -> Result<(), Failure> {
    if kinds.is_empty() {
        return output.line("no dead letters");
    }
    let numbers =
        |number: fn(&DeadLetterKind) -> String| -> Vec<String> { kinds.iter().map(number).collect() };
    let (jobs, examples) = (numbers(|kind| count(kind.jobs)), numbers(|kind| kind.example.to_string()));
    let width =
        |texts: &[String], heading: &str| texts.iter().map(String::len).max().unwrap_or(0).max(heading.len());
    let (wide, example_wide) = (width(&jobs, "jobs"), width(&examples, "example"));
    output.line(format_args!("{FAINT}{:>wide$}  {:>example_wide$}  {what}{FAINT:#}", "jobs", "example"))?;
    for ((jobs, example), DeadLetterKind { name, .. }) in jobs.iter().zip(&examples).zip(kinds) {
        let name = if name.is_empty() { "(none)".to_owned() } else { printable(name) };
        let name = cut(&name, COLUMNS - wide - example_wide - 4);
        output.line(format_args!("{jobs:>wide$}  {example:>example_wide$}  {name}"))?;
    }
    Ok(())
}
