//! What runs beside the workers: renewals, purges, and looking at how it goes.

use std::sync::Arc;

use tollway_core::Span;

use super::alarm::{AlarmRules, AlarmSink, Alarms, News};
use super::builder::host_and_process;
use super::outage::is_outage;
use super::{Run, lock, progress, work};
use crate::EngineError;
use crate::bounds::{BATCH_MAX, PAGE_MAX};

/// How often done jobs are purged, and the engine tidied.
const TIDY_EVERY: Span = Span::from_mins(1);

/// How often progress is recorded, and alarms are looked for.
const OBSERVE_EVERY: Span = Span::from_secs(5);

/// How often progress is kept in the engine, for the next process.
const RECORD_EVERY: Span = Span::from_mins(1);

/// How often a second process with this worker's name is looked for.
const NAME_EVERY: Span = Span::from_secs(15);

/// How often it is said that there is one.
const SAY_NAME_EVERY: u32 = 40;

/// Warns of another process that works under the same name.
pub(super) async fn watch_name(run: Arc<Run>) {
    let process = format!("{}, started at {}", host_and_process(), run.started_at);
    let mut found = 0;
    loop {
        match run.engine.claim_name(&run.worker, &process).await {
            Ok(Some(other)) => {
                if found % SAY_NAME_EVERY == 0 {
                    tracing::warn!(
                        worker = run.worker,
                        other,
                        "another process works under this worker's name: when one starts, it takes over the jobs of the \
                         other, whose calls are made twice; give each its own --worker"
                    );
                }
                found = found.saturating_add(1);
            }
            Ok(None) => found = 0,
            Err(error) => tracing::debug!(%error, "the worker's name could not be looked at"),
        }
        run.sleep_until(run.now().plus(NAME_EVERY)).await;
    }
}

/// How soon a renewal that failed is tried again: claims expire meanwhile.
const RENEW_AGAIN: Span = Span::from_secs(1);

/// Renews every claim at a third of its visibility timeout.
pub(super) async fn renew_claims(run: Arc<Run>) {
    let mut failed = false;
    loop {
        let shortest = run.stages().iter().map(|stage| stage.config.visibility_timeout).min();
        let every = Span::from_micros(shortest.unwrap_or(Span::from_mins(1)).as_micros() / 3);
        run.sleep_until(run.now().plus(if failed { RENEW_AGAIN.min(every) } else { every })).await;
        failed = false;
        for (index, stage) in run.stages().iter().enumerate() {
            for claims in run.active.of_stage(index).chunks(BATCH_MAX) {
                let visibility = stage.config.visibility_timeout;
                let renewed = run.engine.renew(claims.to_vec(), visibility, run.now()).await;
                run.health.note(&renewed, run.now());
                match renewed {
                    Ok(newest) => {
                        let lost = claims.iter().zip(newest).filter(|(_, newest)| !newest);
                        for (claim, _) in lost.filter(|(claim, _)| run.active.stop(claim)) {
                            tracing::warn!(%claim, "stopped: the job was cancelled, or another worker has it");
                        }
                    }
                    Err(error) => {
                        failed = true;
                        failed_in_background(&error, "claims could not be renewed; trying again");
                    }
                }
            }
        }
    }
}

/// Purges done jobs whose retention is over, and lets the engine tidy up.
pub(super) async fn tidy(run: Arc<Run>) {
    loop {
        run.sleep_until(run.now().plus(TIDY_EVERY)).await;
        for stage in run.stages().iter() {
            let before = run.now().minus(stage.config.retention);
            loop {
                match run.engine.purge(&stage.config.name, before, PAGE_MAX).await {
                    Ok(purged) if purged >= PAGE_MAX as u64 => {}
                    Ok(_) => break,
                    Err(error) => {
                        failed_in_background(&error, "done jobs could not be purged");
                        break;
                    }
                }
            }
        }
        if let Err(error) = run.engine.tidy().await {
            failed_in_background(&error, "the engine could not tidy up");
        }
    }
}

/// Records progress, and raises alarms.
pub(super) async fn observe(run: Arc<Run>, rules: AlarmRules, sink: Arc<dyn AlarmSink>) {
    let earlier = lock(&run.history).last();
    let mut alarms = Alarms::new(rules).after(earlier);
    let mut record_at = run.now();
    loop {
        let counts = run.engine.counts().await;
        run.health.note(&counts, run.now());
        let mut news = alarms.look_at_engine(run.health.outage(run.now()));
        match counts {
            Ok(counts) => {
                lock(&run.history).record(run.now(), counts);
                if run.now() >= record_at {
                    record_at = run.now().plus(RECORD_EVERY);
                    if let Err(error) = run.engine.record(run.now()).await {
                        failed_in_background(&error, "progress could not be kept");
                    }
                }
                if let Ok(progress) = progress::read(&run).await {
                    news.extend(alarms.look(&progress));
                }
            }
            Err(error) => failed_in_background(&error, "progress could not be read"),
        }
        report(&run, &*sink, news).await;
        *lock(&run.raised) = alarms.current();
        tokio::select! {
            () = run.sleep_until(run.now().plus(OBSERVE_EVERY)) => {}
            // The end of an alarm is told before the process may end.
            () = run.health.is_back() => {}
        }
    }
}

/// Tells operators, and pauses stages whose handlers fail.
async fn report(run: &Run, sink: &dyn AlarmSink, news: News) {
    news.raised.iter().for_each(|alarm| sink.raised(alarm));
    news.goes_on.iter().for_each(|alarm| sink.goes_on(alarm));
    news.over.iter().for_each(|alarm| sink.over(alarm));
    for alarm in news.raised.iter().filter(|alarm| alarm.pauses_stage()) {
        let stages = run.stages();
        if let Some(stage) = stages.iter().find(|stage| Some(&stage.config.name) == alarm.stage()) {
            work::pause_stage(run, stage, &alarm.to_string()).await;
        }
    }
}

/// An outage of the engine has its own lines in the log.
fn failed_in_background(error: &EngineError, what: &str) {
    if is_outage(error) {
        tracing::debug!(%error, "{what}");
    } else {
        tracing::warn!(%error, "{what}");
    }
}
