//! Works on the messages of one event, until the function's time is nearly over.

use std::sync::{Arc, Mutex, PoisonError};

use tollway::Limiter;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::run::{OwnEvents, RunError, Runner};
use tollway_pipeline::{Engine, EngineError, PipelineConfig};

use super::event::{BatchFailures, SqsEvent, SqsRecord};
use crate::SqsEngine;

/// How long before the end of its time a function gives back what it has not begun.
pub const RETURN_BEFORE: Span = Span::from_secs(10);

/// How long handlers may go on after that. The rest is for handing on, and for the answer.
const GRACE: Span = Span::from_secs(5);

/// A job that can be tried again later than this goes back, because a function costs money while it waits.
const IDLE_MAX: Span = Span::from_secs(10);

/// How long before the end of its time a function answers, whatever is still on its way.
const ANSWER_BEFORE: Span = Span::from_secs(3);

/// How often the engine is tidied.
const TIDY_EVERY: Span = Span::from_mins(1);

/// How often the messages of an event are looked at.
const LOOK_EVERY: Span = Span::from_millis(50);

/// An event that cannot be worked on at all: all of its messages go back.
#[derive(thiserror::Error)]
pub enum WorkError {
    /// A queue that no stage has.
    #[error(
        "no stage of the pipeline has the queue {queue:?}; name it as `queue` of its stage, or set --stage"
    )]
    UnknownQueue {
        /// The queue.
        queue: String,
    },
    /// A function that ends before it could begin.
    #[error(
        "the function has {left} for an event, and gives back what it has not begun {RETURN_BEFORE} before its end: set its timeout to a minute or more"
    )]
    NoTime {
        /// How long it may work.
        left: Span,
    },
    /// Messages of several queues.
    #[error("an event has messages of one queue, not of {one:?} and {other:?}")]
    SeveralQueues {
        /// A queue.
        one: String,
        /// Another one.
        other: String,
    },
    /// The pipeline cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

tollway_core::debug_as_display!(WorkError);

/// Works on events of a pipeline's queues, with the same ledger as every other worker of the pipeline.
pub struct LambdaWorker {
    config: PipelineConfig,
    limiter: Limiter,
    engine: Arc<SqsEngine>,
    stage: Option<Name>,
    own: OwnEvents,
    guard: Option<tollway_pipeline::handler::guard::GuardProgram>,
    tidied_at: Mutex<Option<Timestamp>>,
}

impl LambdaWorker {
    /// A worker for this pipeline, on an engine [for deliveries](SqsEngine::for_deliveries). `stage` is the stage of every
    /// message; none: the one whose queue it comes from.
    pub fn new(
        config: PipelineConfig,
        limiter: Limiter,
        engine: Arc<SqsEngine>,
        stage: Option<Name>,
    ) -> Self {
        Self {
            config,
            limiter,
            engine,
            stage,
            own: OwnEvents::default(),
            guard: None,
            tidied_at: Mutex::default(),
        }
    }

    /// The program that guards subprocesses; otherwise the running one.
    #[must_use]
    pub fn guard(mut self, guard: tollway_pipeline::handler::guard::GuardProgram) -> Self {
        self.guard = Some(guard);
        self
    }

    /// What this process did in each stage.
    pub fn own_events(&self) -> OwnEvents {
        self.own.clone()
    }

    /// Works on an event until all is done, or until [`RETURN_BEFORE`] the deadline. Answers which messages go back.
    pub async fn handle(&self, event: &SqsEvent, deadline: Timestamp) -> Result<BatchFailures, WorkError> {
        let Some(stage) = self.stage_of(&event.records)? else { return Ok(BatchFailures::default()) };
        let (clock, until) = (self.limiter.clock(), deadline.minus(RETURN_BEFORE));
        let begun = clock.now();
        if until <= begun {
            return Err(WorkError::NoTime { left: deadline.since(begun) });
        }
        if self.engine.peek(&stage, begun).await.map_err(RunError::Engine)?.paused {
            tracing::warn!(
                stage = stage.as_str(),
                "the stage is paused; its messages go back to their queue"
            );
            return Ok(BatchFailures::new(event.records.iter().map(|record| record.message_id.clone())));
        }
        self.engine.deliver(&stage, &event.records, begun);
        let worked = self.work_until(until, begun, deadline.minus(ANSWER_BEFORE)).await;
        let unfinished = self.engine.take_unfinished(clock.now()).await;
        worked?;
        if clock.now() < until && self.is_to_tidy(clock.now()) {
            self.engine.tidy_between_events(clock.now()).await;
        }
        Ok(BatchFailures::new(unfinished))
    }

    /// Works on what was delivered. Calls of AWS that hang do not keep the answer beyond `end`.
    async fn work_until(&self, until: Timestamp, begun: Timestamp, end: Timestamp) -> Result<(), WorkError> {
        let clock = self.limiter.clock();
        let mut builder = Runner::builder(self.engine.clone(), self.limiter.clone())
            .pipeline(&self.config)
            .counts_in(&self.own);
        if let Some(guard) = &self.guard {
            builder = builder.guard(guard.clone());
        }
        let worked = async {
            let runner = builder.start().await?;
            while clock.now() < until && !self.engine.is_settled(until.min(clock.now().plus(IDLE_MAX))) {
                let next = clock.now().plus(LOOK_EVERY).min(until);
                tollway_pipeline::run::sleep_until(&**clock, next).await;
            }
            // A job that had half of the event's time will not fit the next event, either.
            let half = Span::from_micros(until.since(begun).as_micros() / 2);
            let began_early = if clock.now() < until { Timestamp::EPOCH } else { begun.plus(half) };
            let drained = runner.drain_or_crash(GRACE, began_early).await.map_err(RunError::Engine)?;
            match drained.left_open {
                0 => Ok(()),
                _ => Err(RunError::Engine(EngineError::no_answer("claims could not be given back")).into()),
            }
        };
        tokio::select! {
            worked = worked => worked,
            () = tollway_pipeline::run::sleep_until(&**clock, end) => {
                tracing::warn!("the function's time is over before all is stored; what is not goes back");
                Ok(())
            }
        }
    }

    /// Whether a minute is over since the engine was last tidied: no other process may run beside functions.
    fn is_to_tidy(&self, now: Timestamp) -> bool {
        let mut tidied_at = self.tidied_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tidied_at.is_none_or(|at| now.since(at) >= TIDY_EVERY);
        if due {
            *tidied_at = Some(now);
        }
        due
    }

    fn stage_of(&self, records: &[SqsRecord]) -> Result<Option<Name>, WorkError> {
        let Some(first) = records.first() else { return Ok(None) };
        let queue = first.queue();
        if let Some(other) = records.iter().find(|record| record.queue() != queue) {
            return Err(WorkError::SeveralQueues { one: queue.to_owned(), other: other.queue().to_owned() });
        }
        let is_it = |stage: &&Name| match &self.stage {
            Some(wanted) => *stage == wanted,
            None => self.engine.queue_of(stage).as_deref() == Some(queue),
        };
        let stage = self.config.stages.iter().map(|stage| &stage.name).find(is_it);
        stage.cloned().map(Some).ok_or_else(|| WorkError::UnknownQueue { queue: queue.to_owned() })
    }
}
