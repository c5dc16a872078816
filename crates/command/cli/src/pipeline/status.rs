//! `pipeline status`: how far every stage is.

use serde_json::{Value, json};
use tollway::core::Name;
use tollway::{Limiter, Timestamp};
use tollway_pipeline::run::progress::{Eta, HandlerOutage, Progress, StageProgress};
use tollway_pipeline::{Engine, PipelineConfig, StageCounts, State};

use super::live::{Live, stdout_width};
use super::progress_text;
use super::quota::{LimitQuota, PolicyQuota, Quota};
use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize::count;
use crate::layout::COLUMNS;

/// Show how far every stage is, at which rate, and when all may be done
///
/// Works while the pipeline runs and while it does not. The estimated end is a range between the best and the worst rate of
/// the last minutes in which the pipeline ran.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0; with --check, with 1 if a stage is paused, has dead letters, or has jobs and is not in the config."
)]
pub(crate) struct Arguments {
    /// Only the jobs of this group, such as a job_id
    #[arg(long)]
    group: Option<String>,
    /// Exit with 1 if a stage is paused, has dead letters, or has jobs and is not in the config: for scripts
    #[arg(long, conflicts_with = "group")]
    check: bool,
    /// Show it again every second, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["group", "check"])]
    watch: bool,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    if arguments.watch {
        return super::watch::run(which, context);
    }
    let session = Session::open(which, context, false)?;
    if let Some(group) = &arguments.group {
        return of_group(group, &session);
    }
    // First: it may know that the date of this machine is behind.
    let limiter = session.limiter()?;
    let (progress, quota) = session.wait(read(&*session.engine, &session.config, &limiter, session.now()))?;
    context.warn_if_behind(progress.at);
    if context.output().is_json() {
        context.output().json(&to_json(&session, &progress, &quota))?;
    } else {
        let live = Live::of_width(stdout_width().unwrap_or(COLUMNS));
        for line in progress_text::lines(&progress, &quota, &live) {
            context.output().line(line)?;
        }
    }
    let healthy = progress.stages.iter().all(|stage| !stage.paused && stage.dead == 0);
    let healthy = healthy && progress.unlisted.is_empty();
    Ok(if arguments.check && !healthy { Exit::FAILED } else { Exit::DONE })
}

/// How far the stages are, and what they take from.
pub(super) async fn read(
    engine: &dyn Engine,
    config: &PipelineConfig,
    limiter: &Limiter,
    now: Timestamp,
) -> Result<(Progress, Quota), Failure> {
    let names: Vec<Name> = config.stages.iter().map(|stage| stage.name.clone()).collect();
    let progress = Progress::read(engine, &names, now).await?;
    let quota = Quota::read(limiter, config, progress.at).await;
    Ok((quota.complete(progress, config), quota))
}

fn of_group(group: &str, session: &Session<'_>) -> Result<Exit, Failure> {
    let counts = session.wait(session.engine.group_counts(group))?;
    let output = session.context.output();
    if counts.is_empty() {
        return Err(Failure::not_found(format!("there is no job of group {group:?}"))
            .advise("done jobs are forgotten after the stage's retention"));
    }
    if output.is_json() {
        let stages: Vec<Value> = counts.iter().map(group_json).collect();
        output.json(&json!({ "group": group, "stages": stages }))?;
        return Ok(Exit::DONE);
    }
    for stage in &counts {
        let states = State::ALL.into_iter().filter(|state| stage.of(*state) > 0);
        let states: Vec<String> = states.map(|state| format!("{} {state}", count(stage.of(state)))).collect();
        output.line(format_args!("{:<12} {}", stage.stage.as_str(), states.join(", ")))?;
    }
    Ok(Exit::DONE)
}

fn group_json(stage: &StageCounts) -> Value {
    let mut fields = serde_json::Map::from_iter([("stage".to_owned(), json!(stage.stage.as_str()))]);
    fields.extend(State::ALL.map(|state| (state.as_str().to_owned(), json!(stage.of(state)))));
    fields.into()
}

fn to_json(session: &Session<'_>, progress: &Progress, quota: &Quota) -> Value {
    let used = |limit: &LimitQuota| {
        let usage = &limit.usage;
        json!({
            "limit": usage.name.as_str(), "unit": usage.unit.as_str(), "used": usage.used,
            "capacity": usage.capacity, "reset_at": usage.resets_at.to_string(),
            "as_of": usage.as_of.to_string(),
            "closed_until": limit.closed_until.map(|until| until.to_string()),
        })
    };
    let policy = |policy: &PolicyQuota| json!({ "policy": policy.name, "limits": policy.limits.iter().map(used).collect::<Vec<_>>() });
    json!({
        "pipeline": session.config.name.as_str(),
        "engine": session.config.engine.to_string(),
        "at": progress.at.to_string(),
        "clock_behind_s": session.context.clock_behind(progress.at).map(|behind| behind.as_micros() / 1_000_000),
        "stages": progress.stages.iter().map(stage_json).collect::<Vec<_>>(),
        "not_in_config": progress.unlisted.iter().map(group_json).collect::<Vec<_>>(),
        "per_minute": progress.per_minute,
        "attempts_left": progress.left,
        "eta": progress.eta.as_ref().map(eta_json),
        "no_eta_because": progress.stands.as_ref().map(|stands| progress_text::stands_text(stands, progress)),
        "quota": quota.policies.iter().map(policy).collect::<Vec<_>>(),
    })
}

/// A stage, as it appears in JSON.
pub(super) fn stage_json(stage: &StageProgress) -> Value {
    json!({
        "stage": stage.stage.as_str(),
        "done": stage.done,
        "ready": stage.ready,
        "waiting_for_quota_until": stage.waiting_until.map(|at: Timestamp| at.to_string()),
        "handler_unreachable": stage.unreachable.as_ref().map(outage_json),
        "running": stage.running,
        "retrying": stage.retrying,
        "held": stage.held,
        "dead": stage.dead,
        "paused": stage.paused,
        "per_minute": stage.per_minute,
        "failures": stage.events.failures,
        "crashes": stage.events.crashes,
        "rate_limited": stage.events.rate_limited,
        "late_answers": stage.events.late,
        "duplicates": stage.events.duplicates,
    })
}

fn outage_json(outage: &HandlerOutage) -> Value {
    json!({
        "since": outage.since.to_string(), "next_try_at": outage.next_try_at.to_string(), "error": outage.error,
    })
}

fn eta_json(eta: &Eta) -> Value {
    let moved = eta.moved.as_ref().map(|moved| {
        json!({
            "since": moved.since.to_string(), "later_by_s": moved.seconds(), "by_jobs_s": moved.by_jobs,
            "by_rate_s": moved.by_rate, "by_stops_s": moved.by_stops,
        })
    });
    json!({ "earliest": eta.earliest.to_string(), "latest": eta.latest.to_string(), "moved": moved })
}
