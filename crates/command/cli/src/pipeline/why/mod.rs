//! `pipeline why`: one job, and why it is where it is.

mod text;

use tollway_pipeline::view::{JobFacts, Reason, WhyView, find};

use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Explain one job: where it is, why it does not run, what to do
///
/// Shows its state and since when, what it waits for, every attempt that did not finish it, what it handed on, and the
/// command to type next.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway pipeline why 104                         by its number
  tollway pipeline why uploads/job-123/chunks/chunk_001.pdf
  tollway pipeline why 104 --json | jq .jobs[0].attempts

Exits with 0, or with 66 if there is no such job.")]
pub(crate) struct Arguments {
    /// The job's number, or its key
    #[arg(value_name = "ID|KEY")]
    job: String,
    /// Only in this stage, if several have the key
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let session = Session::open(which, context, false)?;
    let stage = arguments.stage.as_ref().map(|name| session.stage(name)).transpose()?;
    let mut jobs = session.wait(find(&*session.engine, &arguments.job))?;
    jobs.retain(|job| stage.as_ref().is_none_or(|stage| job.stage == *stage));
    if jobs.is_empty() {
        return Err(Failure::not_found("no such job is in that stage").advise("leave --stage out"));
    }
    // The store of limits may be out of reach, and then the quota is left out.
    let limiter = session.limiter().ok();
    let mut explained = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (engine, config) = (&*session.engine, &session.config);
        let facts = session.wait(JobFacts::read(job, engine, config, limiter.as_ref(), session.now()))?;
        let reason = Reason::of(&facts, &which.wording());
        explained.push((facts, reason));
    }
    let output = context.output();
    if output.is_json() {
        let jobs: Vec<_> = explained.iter().map(|(facts, reason)| WhyView::new(facts, reason)).collect();
        output.json(&std::collections::BTreeMap::from([("jobs", jobs)]))?;
        return Ok(Exit::DONE);
    }
    for (index, (facts, reason)) in explained.iter().enumerate() {
        if index > 0 {
            output.line("")?;
        }
        text::write(facts, reason, output)?;
    }
    Ok(Exit::DONE)
}
