//! Queues a take in a shell. An interrupted command cancels its booking.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tollway::{Denied, Limiter, Permit, Span, Take, TakeError};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::take_arguments::CostArgument;
use crate::usage::warn_of;

/// The options of one take.
#[derive(Clone, Copy)]
pub(crate) struct TakeOptions<'a> {
    pub(crate) policy: &'a str,
    pub(crate) subject: Option<&'a str>,
    pub(crate) costs: &'a [CostArgument],
    pub(crate) max_wait: Option<Span>,
    pub(crate) id: Option<&'a str>,
}

impl<'a> TakeOptions<'a> {
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

    /// Checks the take without charging it.
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

/// Waits for a permit that has begun, or a denial. An interrupted wait cancels its booking and fails.
pub(crate) async fn wait_for_permit(
    limiter: &Limiter,
    options: &TakeOptions<'_>,
    context: &Context,
) -> Result<Result<Permit, Denied>, Failure> {
    warn_of(limiter.follow_settings().await, context);
    warn_of(limiter.sources_read().await, context);
    let progress = show_wait(limiter, options, context).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let permit = tokio::select! {
        permit = options.permit(limiter) => permit,
        _ = interrupt.recv() => return Err(interrupted(limiter, options, 130).await),
        _ = terminate.recv() => return Err(interrupted(limiter, options, 143).await),
        _ = hangup.recv() => return Err(interrupted(limiter, options, 129).await),
    };
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    match permit {
        Ok(permit) => {
            if permit.degraded() {
                context
                    .output()
                    .warning("the store did not answer; granted without it, as the policy allows");
            }
            Ok(Ok(permit))
        }
        Err(TakeError::Denied(denied)) => Ok(Err(*denied)),
        Err(error) => Err(error.into()),
    }
}

/// Runs a future with timers, signals and child processes.
pub(crate) fn block_on_runtime<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

/// Shows on a terminal which limit the take waits for. Only there, because the check costs a round trip.
async fn show_wait(
    limiter: &Limiter,
    options: &TakeOptions<'_>,
    context: &Context,
) -> Result<Option<ProgressBar>, Failure> {
    if !context.output().is_watched() {
        return Ok(None);
    }
    let Some(denied) = options.put(limiter.try_take(options.policy)).preview().await? else {
        return Ok(None);
    };
    let limit = denied.limit().map(|limit| limit.name().to_string()).unwrap_or_default();
    let free = humanize::moment(denied.retry_at(), context.now());
    let style = ProgressStyle::with_template("{spinner} {msg}  {elapsed}");
    let progress =
        ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    progress.set_message(format!("waiting for {limit} of {} until {free}", options.policy));
    progress.enable_steady_tick(Duration::from_millis(120));
    Ok(Some(progress))
}

/// Dropping the future cancelled the booking. A read of the usage waits until the store has done that.
async fn interrupted(limiter: &Limiter, options: &TakeOptions<'_>, exit: u8) -> Failure {
    let _ = limiter.usage(options.policy).subject(options.subject.unwrap_or_default()).await;
    let booking = match options.id {
        None => "the booking was cancelled",
        Some(_) => "the booking is kept for the id",
    };
    Failure::new(Exit::new(exit), format_args!("interrupted while waiting; {booking}"))
}
