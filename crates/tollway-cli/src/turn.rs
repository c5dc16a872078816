//! Waiting for one's turn in a shell: a place in line that an interrupted command gives back.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tollway::{Denied, Limiter, Permit, Span, Take, TakeError};

use crate::asked::CostArgument;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::usage::warn_of;
use crate::words;

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) policy: &'a str,
    pub(crate) subject: Option<&'a str>,
    pub(crate) costs: &'a [CostArgument],
    pub(crate) max_wait: Option<Span>,
    pub(crate) id: Option<&'a str>,
}

impl<'a> Turn<'a> {
    fn put<Mode>(&self, mut take: Take<'a, Mode>) -> Take<'a, Mode> {
        take = take.subject(self.subject.unwrap_or_default()).with_readings();
        for cost in self.costs {
            take = take.cost(&cost.unit, cost.amount);
        }
        match self.id {
            Some(id) => take.id(id),
            None => take,
        }
    }

    /// The same, as a question that takes nothing.
    pub(crate) fn preview(&self, limiter: &'a Limiter) -> Result<Option<Denied>, Failure> {
        Ok(self.put(limiter.try_take(self.policy)).preview_now()?)
    }

    async fn permit(&self, limiter: &'a Limiter) -> Result<Permit, TakeError> {
        let mut take = self.put(limiter.take(self.policy));
        if let Some(wait) = self.max_wait {
            take = take.max_wait(wait.into());
        }
        let mut permit = take.await?;
        permit.begin().await?;
        Ok(permit)
    }
}

/// A permit that has begun, or why there is none. An interrupted wait gives its place back and is a failure.
pub(crate) async fn wait_for_turn(
    limiter: &Limiter,
    turn: &Turn<'_>,
    context: &Context,
) -> Result<Result<Permit, Denied>, Failure> {
    warn_of(limiter.follow_settings().await, context);
    warn_of(limiter.sources_read().await, context);
    let progress = watched_wait(limiter, turn, context).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let permit = tokio::select! {
        permit = turn.permit(limiter) => permit,
        _ = interrupt.recv() => return Err(interrupted(limiter, turn, 130).await),
        _ = terminate.recv() => return Err(interrupted(limiter, turn, 143).await),
        _ = hangup.recv() => return Err(interrupted(limiter, turn, 129).await),
    };
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    match permit {
        Ok(permit) => {
            if permit.degraded() {
                context
                    .output()
                    .warning("the store did not answer; it was granted without, as the policy says");
            }
            Ok(Ok(permit))
        }
        Err(TakeError::Denied(denied)) => Ok(Err(*denied)),
        Err(error) => Err(error.into()),
    }
}

/// Runs a future with timers, signals and child processes.
pub(crate) fn on_a_runtime<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

/// Somebody who watches sees what the wait is for. Asking costs a round trip, so only then.
async fn watched_wait(
    limiter: &Limiter,
    turn: &Turn<'_>,
    context: &Context,
) -> Result<Option<ProgressBar>, Failure> {
    if !context.output().is_watched() {
        return Ok(None);
    }
    let Some(denied) = turn.put(limiter.try_take(turn.policy)).preview().await? else { return Ok(None) };
    let limit = denied.limit().map(|limit| limit.name().to_string()).unwrap_or_default();
    let free = words::moment(denied.retry_at(), context.now());
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    let progress =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    progress.set_message(format!("waiting for {limit} of {}, free at {free}", turn.policy));
    progress.enable_steady_tick(Duration::from_millis(120));
    Ok(Some(progress))
}

/// The place in line was given back when its future was dropped; whatever is asked next comes after that.
async fn interrupted(limiter: &Limiter, turn: &Turn<'_>, exit: u8) -> Failure {
    let _ = limiter.usage(turn.policy).subject(turn.subject.unwrap_or_default()).await;
    let place = match turn.id {
        None => "the place in line was given back",
        Some(_) => "the place in line is kept for the id",
    };
    Failure::new(Exit::new(exit), format_args!("interrupted while waiting; {place}"))
}
