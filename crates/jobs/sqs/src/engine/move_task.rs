//! Redrives all dead letters of a stage with a task of SQS: messages go back to the stage's queue without passing through here.
//!
//! A dead letter's message names the job's last claim, so it redrives its job when it is claimed. Until then the ledger has the job
//! as a dead letter.

use std::sync::atomic::Ordering;

use aws_sdk_sqs::types::ListMessageMoveTasksResultEntry as Entry;
use tollway_core::{Name, Retry};
use tollway_pipeline::EngineError;

use super::clients::{Retries, retried};
use super::error::{failed, storage};
use super::queue::StageQueue;
use super::{Inner, SqsEngine};

/// The most messages that a task moves in a second.
pub const MOVES_PER_SECOND_MAX: u32 = 500;

/// How many tasks of a queue SQS lists at most.
const LISTED_MAX: i32 = 10;

/// A task of SQS that moves the dead letters of a stage back to its queue. See [`SqsEngine::start_move_task`].
#[derive(Clone, Debug)]
pub struct MoveTask {
    stage: Name,
    source: String,
    /// The newest task before this one started then. SQS names no finished task, so its time tells it from others.
    after: i64,
    handle: Option<String>,
    followed: bool,
}

impl MoveTask {
    /// The stage whose dead letters it moves.
    pub fn stage(&self) -> &Name {
        &self.stage
    }

    /// Whether it was running before it was to be started: another call has set its rate.
    pub fn was_running(&self) -> bool {
        self.followed
    }
}

/// How far a task is. SQS gives about the right numbers, and late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveProgress {
    /// Messages that were moved.
    pub moved: u64,
    /// Messages that there were when it started; none: SQS has not counted them yet.
    pub to_move: Option<u64>,
    /// Whether it goes on.
    pub state: MoveState,
}

/// Whether a task goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveState {
    /// It moves messages, or is about to.
    Running,
    /// It has moved every message.
    Completed,
    /// It is about to end as cancelled.
    Cancelling,
    /// It was cancelled, here or elsewhere.
    Cancelled,
    /// SQS gave it up, for this reason.
    Failed(String),
}

impl SqsEngine {
    /// Starts to move all dead letters of a stage back to its queue, at most `per_second` of them in a second: 1 to
    /// [`MOVES_PER_SECOND_MAX`]. A task that moves them already is followed instead, with its own rate.
    ///
    /// ```no_run
    /// use tollway_core::Name;
    /// use tollway_pipeline::EngineUrl;
    /// use tollway_sqs::{MoveState, SqsEngine};
    ///
    /// # async fn redrive() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = SqsEngine::open(&EngineUrl::parse("sqs:?ledger=tollway-jobs")?)?;
    /// let task = engine.start_move_task(&Name::new("autotag")?, Some(50)).await?;
    /// while engine.look_at_move_task(&task).await?.state == MoveState::Running {
    ///     tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start_move_task(
        &self,
        stage: &Name,
        per_second: Option<u32>,
    ) -> Result<MoveTask, EngineError> {
        if per_second.is_some_and(|rate| !(1..=MOVES_PER_SECOND_MAX).contains(&rate)) {
            let message = format!("a move task moves 1 to {MOVES_PER_SECOND_MAX} messages a second");
            return Err(EngineError::caller(message));
        }
        self.inner.start_move_task(stage, per_second).await
    }

    /// How far a task is.
    pub async fn look_at_move_task(&self, task: &MoveTask) -> Result<MoveProgress, EngineError> {
        let queues = self.inner.queues(&task.stage).await?;
        let listed = self.inner.move_tasks(&queues, &task.source).await?;
        let own = listed.iter().find(|entry| entry.started_timestamp > task.after);
        // A new task is not listed at once.
        let new = MoveProgress { moved: 0, to_move: None, state: MoveState::Running };
        Ok(own.map_or(new, progress))
    }

    /// Cancels a task: about how many messages it has moved. A few more may follow.
    pub async fn cancel_move_task(&self, task: &MoveTask) -> Result<u64, EngineError> {
        let queues = self.inner.queues(&task.stage).await?;
        let cancelled = self.inner.cancel_move_task(&queues, task).await;
        match cancelled {
            Ok(moved) => Ok(moved),
            Err(error) => match self.look_at_move_task(task).await {
                // It has ended by itself, or an answer was lost.
                Ok(MoveProgress { moved, state, .. }) if state != MoveState::Running => Ok(moved),
                _ => Err(error),
            },
        }
    }
}

impl Inner {
    async fn start_move_task(&self, stage: &Name, per_second: Option<u32>) -> Result<MoveTask, EngineError> {
        let queues = self.queues(stage).await?;
        let (source, destination) = (queues.dead.arn().await?, queues.queue.arn().await?);
        let follow = |entry: &Entry| follow(stage, &source, &destination, entry);
        let before = self.move_tasks(&queues, &source).await?;
        if let Some(running) = before.iter().find(|entry| is_running(entry)) {
            return follow(running);
        }
        let after = before.last().map_or(0, |newest| newest.started_timestamp);
        let mut retries = Retries::new();
        loop {
            let error = match self.send_start(&queues, &source, &destination, per_second).await {
                Ok(handle) => {
                    return Ok(MoveTask { stage: stage.clone(), source, after, handle, followed: false });
                }
                Err(error) => error,
            };
            // Another process was faster, or the answer was lost: there is one task at a time, so it is to be followed.
            let listed = self.move_tasks(&queues, &source).await.unwrap_or_default();
            if let Some(new) = listed.iter().find(|entry| entry.started_timestamp > after) {
                return follow(new);
            }
            if !retries.repeats_after(&error).await {
                return Err(error);
            }
        }
    }

    async fn send_start(
        &self,
        queues: &StageQueue,
        source: &str,
        destination: &str,
        per_second: Option<u32>,
    ) -> Result<Option<String>, EngineError> {
        let client = self.clients.sqs().await?;
        self.requests.move_task.fetch_add(1, Ordering::Relaxed);
        let rate = per_second.and_then(|rate| i32::try_from(rate).ok());
        let request = client.start_message_move_task().source_arn(source).destination_arn(destination);
        let started = request.set_max_number_of_messages_per_second(rate).send().await;
        Ok(started.map_err(|error| failed(&queues.dead.service(), &error))?.task_handle)
    }

    /// The newest tasks of a queue, the oldest first.
    async fn move_tasks(&self, queues: &StageQueue, source: &str) -> Result<Vec<Entry>, EngineError> {
        let mut listed = retried!({
            let client = self.clients.sqs().await?;
            self.requests.move_task.fetch_add(1, Ordering::Relaxed);
            let request = client.list_message_move_tasks().source_arn(source).max_results(LISTED_MAX);
            let listed = request.send().await.map_err(|error| failed(&queues.dead.service(), &error))?;
            Ok(listed.results.unwrap_or_default())
        })?;
        listed.sort_by_key(|entry| entry.started_timestamp);
        Ok(listed)
    }

    async fn cancel_move_task(&self, queues: &StageQueue, task: &MoveTask) -> Result<u64, EngineError> {
        let Some(handle) = &task.handle else {
            let message = format!("{}: SQS gave the move task no handle", queues.dead.service());
            return Err(storage(Retry::Useless, message));
        };
        retried!({
            let client = self.clients.sqs().await?;
            self.requests.move_task.fetch_add(1, Ordering::Relaxed);
            let cancelled = client.cancel_message_move_task().task_handle(handle).send().await;
            let cancelled = cancelled.map_err(|error| failed(&queues.dead.service(), &error))?;
            Ok(u64::try_from(cancelled.approximate_number_of_messages_moved).unwrap_or(0))
        })
    }
}

fn is_running(entry: &Entry) -> bool {
    entry.status.as_deref() == Some("RUNNING")
}

/// A task that was started elsewhere, if it moves messages to where they belong.
fn follow(stage: &Name, source: &str, destination: &str, entry: &Entry) -> Result<MoveTask, EngineError> {
    // None: to the queues that the messages came from.
    if let Some(other) = entry.destination_arn.as_deref().filter(|other| *other != destination) {
        let message = format!(
            "stage {}: a move task is moving its dead letters to {other}; cancel it, or wait for its end",
            stage.as_str()
        );
        return Err(storage(Retry::Safe, message));
    }
    Ok(MoveTask {
        stage: stage.clone(),
        source: source.to_owned(),
        after: entry.started_timestamp - 1,
        handle: entry.task_handle.clone(),
        followed: true,
    })
}

fn progress(entry: &Entry) -> MoveProgress {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let reason = || entry.failure_reason.clone().unwrap_or_else(|| "SQS gives no reason".to_owned());
    MoveProgress {
        moved: number(entry.approximate_number_of_messages_moved),
        to_move: entry.approximate_number_of_messages_to_move.map(number),
        state: match entry.status.as_deref() {
            Some("COMPLETED") => MoveState::Completed,
            Some("CANCELLING") => MoveState::Cancelling,
            Some("CANCELLED") => MoveState::Cancelled,
            Some("FAILED") => MoveState::Failed(reason()),
            // RUNNING, and what SQS may call it in the future.
            _ => MoveState::Running,
        },
    }
}
