//! Sends metrics to CloudWatch while a command runs, as `[cloudwatch]` of the config says.

use std::future::Future;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tollway::metrics::Sample;
use tollway::{Clock, Limiter};
use tollway_memory::WallClock;
use tollway_notify::cloudwatch::{CloudWatchConfig, Publisher};

use crate::failure::{Exit, Failure};

/// Sends until it is ended.
pub(crate) struct Publishing {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Publishing {
    /// Sends what `read` finds at every interval of the config; nothing if it has no such section.
    pub(crate) async fn start<F>(
        config: Option<&CloudWatchConfig>,
        limiter: &Limiter,
        read: impl Fn() -> F + Send + 'static,
    ) -> Result<Option<Self>, Failure>
    where
        F: Future<Output = Vec<Sample>> + Send + 'static,
    {
        let Some(config) = config else { return Ok(None) };
        let publisher = Publisher::new(config).await.map_err(|error| Failure::new(Exit::CONFIG, error))?;
        let (end, ended) = oneshot::channel();
        let (interval, limiter) = (config.interval.into(), limiter.clone());
        let task = tokio::spawn(publish(publisher, interval, limiter, read, ended));
        Ok(Some(Self { end, task }))
    }

    /// Sends the last figures.
    pub(crate) async fn finish(self) {
        let _ = self.end.send(());
        let _ = self.task.await;
    }
}

async fn publish<F>(
    mut publisher: Publisher,
    interval: std::time::Duration,
    limiter: Limiter,
    read: impl Fn() -> F + Send,
    mut ended: oneshot::Receiver<()>,
) where
    F: Future<Output = Vec<Sample>> + Send + 'static,
{
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is at once, when nothing has happened yet.
    ticks.tick().await;
    loop {
        let is_last = tokio::select! {
            _ = ticks.tick() => false,
            _ = &mut ended => true,
        };
        let samples = read().await;
        let lost = publisher.publish(&samples, WallClock.now()).await;
        limiter.count_dropped_metrics(lost);
        if is_last {
            if publisher.waiting() > 0 {
                tracing::warn!(figures = publisher.waiting(), "CloudWatch did not take the last figures");
            }
            return;
        }
    }
}
