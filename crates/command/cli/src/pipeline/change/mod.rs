//! Changes of every job that matches: `dead redrive`, `dead drop`, `cancel`, `prioritize`.
//!
//! `steps` applies a change, `display` shows how far it is, `confirm` asks before it.

mod confirm;
mod display;
mod steps;

use serde_json::{Map, Value, json};
use tollway_pipeline::view::{JobChange, JobRate, Matched, find, find_dead, states_of};
use tollway_pipeline::{Change, Engine, Filter, PipelineConfig, State};

use super::filter::Selection;
use super::session::{Which, runtime};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::{count, counted};
use crate::output::{GOOD, Output};
use crate::pipeline::engine_opener;
pub(super) use confirm::Confirmation;
#[cfg(feature = "aws")]
pub(super) use display::Display;
pub(super) use steps::Stepped;

/// What a command asks for.
pub(super) struct Request<'a> {
    /// The number or key of one dead letter, in place of the selection.
    pub(super) job: Option<&'a str>,
    pub(super) selection: &'a Selection,
    /// Only jobs in this state.
    pub(super) state: Option<State>,
    pub(super) change: Change,
    pub(super) dry_run: bool,
    /// How many jobs at most.
    pub(super) limit: Option<u64>,
    pub(super) rate: Option<&'a JobRate>,
    /// None: it does not ask.
    pub(super) confirmation: Option<&'a Confirmation>,
    pub(super) words: Words,
}

/// How a command speaks of what it does: `would drop 2 dead letters`.
pub(super) struct Words {
    /// `dead letters`.
    pub(super) noun: &'static str,
    /// `drop`, before the number and noun.
    pub(super) present: String,
    /// `dropped`.
    pub(super) past: String,
}

pub(super) fn apply(request: &Request<'_>, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    request.check()?;
    let runtime = runtime()?;
    let engine = runtime.block_on(engine_opener().open_for_command(&config.engine, false))?;
    let change = JobChange {
        filter: runtime.block_on(request.filter(&config, &*engine))?,
        change: request.change,
        limit: request.limit,
        rate: request.rate.cloned(),
    };
    let found = runtime.block_on(change.matched(&*engine))?;
    let output = context.output();
    if let Some(named) = request.selection.jobs().one_job().filter(|_| found.matched == 0) {
        return Err(runtime.block_on(request.not_applicable(&named, &*engine)));
    }
    if request.dry_run || found.matched == 0 {
        request.print_dry(&found, output)?;
        request.remark_on(&found, output);
        return Ok(Exit::DONE);
    }
    // Other commands and the pipeline itself must not wait for an answer of the user.
    drop(engine);
    let (most, states) = (found.most, states(&found.states));
    let what = format!("{} {}{states}", request.words.present, counted(most, request.words.noun));
    if let Some(confirmation) = request.confirmation
        && !confirmation.given(&what, output)?
    {
        output.note("nothing was changed");
        return Ok(Exit::FAILED);
    }
    let slow = request.rate.is_some();
    let stepped = runtime.block_on(steps::run(change.steps(most), &config, most, slow, context))?;
    let exit = request.print(&stepped, most, output)?;
    request.remark_on(&found, output);
    Ok(exit)
}

/// `: 9 ready, 3 running`, if the jobs are in several states.
fn states(found: &[(State, u64)]) -> String {
    match found {
        [] | [(State::Dead, _)] => String::new(),
        several => {
            let texts = several.iter().map(|(state, jobs)| format!("{} {state}", count(*jobs)));
            format!(": {}", texts.collect::<Vec<_>>().join(", "))
        }
    }
}

impl Request<'_> {
    fn check(&self) -> Result<(), Failure> {
        match (self.job, self.selection.is_given()) {
            (Some(_), true) => {
                Err(Failure::usage("one job goes with no filter").advise("leave one of them out"))
            }
            (Some(_), false) => Ok(()),
            (None, _) => self.selection.check(),
        }
    }

    async fn filter(&self, config: &PipelineConfig, engine: &dyn Engine) -> Result<Filter, Failure> {
        let Some(job) = self.job else {
            return Ok(self.selection.jobs().check(self.state, config, engine).await?);
        };
        let job = find_dead(engine, job).await?;
        Ok(Filter { job: Some(job.id), state: self.state, ..Filter::default() })
    }

    /// The job that was named is not there, or is in another state.
    async fn not_applicable(&self, named: &str, engine: &dyn Engine) -> Failure {
        match find(engine, named).await {
            Ok(found) => {
                let (present, states) = (&self.words.present, states_of(&found));
                Failure::new(Exit::FAILED, format!("cannot {present} {named:?}: it is {states}"))
                    .advise("`tollway pipeline why` explains a job in any state")
            }
            Err(missing) => missing.into(),
        }
    }

    /// What the user should know of what was changed.
    fn remark_on(&self, found: &Matched, output: &Output) {
        for stage in &found.paused {
            output
                .note(format_args!("{stage} is paused: its jobs wait for `tollway pipeline resume {stage}`"));
        }
        let running = found.states.iter().find(|(state, _)| *state == State::Running);
        if let Some((_, jobs)) = running.filter(|_| self.change == Change::Cancel) {
            let jobs = match jobs {
                1 => "1 of them is running: its call is".to_owned(),
                several => format!("{} of them are running: their calls are", count(*several)),
            };
            output.note(format_args!(
                "{jobs} not recalled; the vendor may finish and bill what has begun, and the answer is ignored"
            ));
        }
    }

    pub(super) fn print_dry(&self, found: &Matched, output: &Output) -> Result<(), Failure> {
        let Words { noun, present, .. } = &self.words;
        let Matched { matched, most, states: by_state, .. } = found;
        if output.is_json() {
            let by_state =
                by_state.iter().map(|(state, jobs)| (state.as_str().to_owned(), Value::from(*jobs)));
            let by_state: Map<String, Value> = by_state.collect();
            let fields =
                json!({ "dry_run": self.dry_run, "matched": matched, "changed": 0, "states": by_state });
            return output.json(&fields);
        }
        match matched {
            0 => output.line(format_args!("no {} match", noun)),
            _ => output.line(format_args!("would {present} {}{}", counted(*most, noun), states(by_state))),
        }
    }

    pub(super) fn print(&self, stepped: &Stepped, most: u64, output: &Output) -> Result<Exit, Failure> {
        let Stepped { changed, interrupted } = stepped;
        let Words { noun, past, .. } = &self.words;
        let done = format!("{past} {}", counted(*changed, noun));
        if output.is_json() {
            output.json(&json!({
                "dry_run": false, "matched": most, "changed": changed, "interrupted": interrupted.is_some(),
            }))?;
            return Ok(interrupted.unwrap_or(Exit::DONE));
        }
        match interrupted {
            None => output.line(format_args!("{GOOD}{done}{GOOD:#}")).map(|()| Exit::DONE),
            Some(exit) => Err(Failure::new(*exit, format!("interrupted: {done} of {}", count(most)))
                .advise("run the same command again; it goes on with the rest")),
        }
    }
}
