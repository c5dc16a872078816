//! Messages of other programs: the pipeline's source reads them, as it reads the lines of `enqueue`.

use tollway_core::{Name, Timestamp};
use tollway_pipeline::bounds::BATCH_MAX;
use tollway_pipeline::source::Source;
use tollway_pipeline::{EngineError, EngineFault, NewJob};

use super::Inner;
use super::message::Incoming;
use super::queue::StageQueue;

/// What a message of another program is.
enum Content {
    /// A job of this stage.
    Job(NewJob),
    /// Several jobs, jobs of another stage, or none: a notification that nothing was created.
    Jobs(Vec<NewJob>),
    /// Nothing that the source knows: a job as it is, if it is JSON.
    AsItIs,
}

impl Inner {
    /// Reads messages of other programs. One with several jobs is enqueued as those, and deleted. One that fails does not keep
    /// the others: it is a dead letter if it is wrong, and comes again if AWS failed.
    pub(super) async fn read_foreign(
        &self,
        queues: &StageQueue,
        messages: Vec<Incoming>,
        now: Timestamp,
    ) -> Vec<Incoming> {
        let mut read = Vec::with_capacity(messages.len());
        for mut message in messages {
            match self.content(&queues.stage, &message, now) {
                Content::Job(job) => message.become_job(job),
                Content::Jobs(jobs) => match self.enqueue_foreign(jobs, now).await {
                    Ok(()) => {
                        queues.queue.delete(&message.of.receipt).await;
                        continue;
                    }
                    Err(error) if error.fault == EngineFault::Caller => message.refuse(error.message),
                    Err(error) => {
                        tracing::warn!(%error, "the jobs of a message could not be enqueued; it comes again");
                        self.retry_delivered(&[message.of.receipt], now);
                        continue;
                    }
                },
                Content::AsItIs => {}
            }
            read.push(message);
        }
        read
    }

    /// Keys make it once, should this process die before it deletes the message.
    async fn enqueue_foreign(&self, jobs: Vec<NewJob>, now: Timestamp) -> Result<(), EngineError> {
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            self.enqueue(jobs.by_ref().take(BATCH_MAX).collect(), now).await?;
        }
        Ok(())
    }

    /// Reads one message of another program, if it is one job of this stage.
    pub(super) fn read_foreign_job(&self, stage: &Name, mut message: Incoming, now: Timestamp) -> Incoming {
        if let Content::Job(job) = self.content(stage, &message, now) {
            message.become_job(job);
        }
        message
    }

    fn content(&self, stage: &Name, message: &Incoming, now: Timestamp) -> Content {
        let (None, Some(source)) = (message.id, self.url.source()) else { return Content::AsItIs };
        let mut read = Source { stage: stage.clone(), ..source.clone() }.read(&message.body, now);
        match (read.errors.is_empty(), read.jobs.pop()) {
            (false, _) => Content::AsItIs,
            (true, Some(job)) if read.jobs.is_empty() && job.stage() == stage => Content::Job(job),
            (true, last) => {
                if read.skipped.total() > 0 {
                    tracing::info!(skipped = %read.skipped, message = message.of.id, "skipped in a message");
                }
                Content::Jobs(read.jobs.into_iter().chain(last).collect())
            }
        }
    }
}
