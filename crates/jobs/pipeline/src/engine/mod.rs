//! The contract between the pipeline and an engine that keeps its jobs.

pub(crate) mod administration;
mod capabilities;
pub(crate) mod checks;
mod claim;
mod conclusion;
mod counters;
pub(crate) mod error;
pub(crate) mod moving;
pub(crate) mod open;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod request;
mod samples;
pub(crate) mod socket;
pub(crate) mod sqlite;
#[cfg(feature = "sqs")]
pub(crate) mod sqs;
mod stored;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;

use tokio::sync::watch;
use tollway_core::{Name, Span, Timestamp};

pub use self::capabilities::Capabilities;
pub use self::claim::{Claim, ClaimRequest, Claimed, Enqueued, Peek};
pub use self::conclusion::{Conclusion, Finished, Output};
use self::request::ask;
pub use self::request::{EngineReply, EngineRequest};
use crate::run::RunnerView;
use crate::*;

/// An engine's answer: it comes after what it says is stored. Dropping it does not undo the call.
pub type EngineAnswer<T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send>>;

/// Keeps jobs, and hands each one to one worker at a time.
///
/// # The life of a job
///
/// ```text
/// enqueue -> ready | delayed | held -> claim -> running -> finish -> done      (outputs are jobs of the next stage)
///                ^                                  |-----> finish -> delayed   (another try, or rate-limited)
///                |---- redrive <- dead <-- finish --|-----> release -> ready    (given back)
///                                                   |-----> expired -> ready    (no worker answered in time)
/// ```
///
/// A job belongs to one stage, unless an operator moves it: [`move_to_stage`](Engine::move_to_stage). What it hands
/// on are new jobs, whose keys come from its key, its stage and their index: [`Claim::output_key`]. A key that was purged can be enqueued again while outputs of its first job are still
/// there. Their ids are lower than that of the new job, so they cannot be its outputs: then the new output's key also
/// names the job ([`Claim::output_key_again`]). If a job with a higher id has the key, the hand-off is an error: only a
/// caller, or a second hand-off of the same job, can have made it.
///
/// # The fence
///
/// Every claim raises the job's claim number by 1. Each later write names job, stage and number: a [`Claim`]. It changes
/// nothing if that claim is not the newest, or has ended: the answer is late ([`Finished::Late`]), counted, and not an
/// error. A claim ends when it is finished or released, when another worker takes the job over, and when an operator
/// cancels or edits the job. **Expiry alone does not end it**: a worker that answers late, but before any other took the
/// job, still finishes it.
///
/// # Committed once
///
/// `finish` with [`Conclusion::Done`] ends the claim, writes the one completion of the job, and enqueues every output, all
/// or nothing, if [`Capabilities::atomic_hand_off`] says so. A worker that got no answer repeats the call: it then gets
/// [`Finished::Repeated`].
///
/// # Order
///
/// A claim gets the ready jobs of its stage and cost: highest priority first, then the oldest, which has the lowest id. A
/// job that waited for a retry keeps its age, so that it does not queue behind a backlog of days. Delayed jobs that are
/// due, and running ones whose claim expired, become ready at the next `claim` or `peek` of their stage. A job that is
/// claimed after its claim expired counts one crash, with evidence.
///
/// # What is counted
///
/// The engine counts failures, crashes and rate-limited attempts, and keeps evidence of each, at most
/// [`EVIDENCE_MAX`](crate::bounds::EVIDENCE_MAX) a job. It knows no number of tries: the worker reads the counts of the
/// claimed job, and concludes with [`Conclusion::Again`] or [`Conclusion::Dead`].
///
/// # Groups
///
/// A stage can wait for groups ([`StageSettings::after`](crate::StageSettings)): a job with a group is held while any job of
/// its group is in one of those stages and has not left it. Dead letters have not left. The engine looks when the job
/// arrives, and whenever the last job of the group leaves; a job that was released once is not held again.
///
/// # Time
///
/// Every call brings its time. Processes that share an engine must have clocks that agree far better than their visibility
/// timeout. An engine may know a later time, because the date of its machine was set back: [`Engine::time`] says it, and
/// callers that wait for a time of the engine go by it.
///
/// # Durability
///
/// An answer comes after its change is durable. Claims and renewals are the exception: they need only survive the death of
/// the process, not that of the machine, since a claim that is lost with its machine has no worker any more.
///
/// # A wrong engine, and a right one
///
/// Wrong: insert the outputs, then mark the job as done. A crash in between hands them on twice. Wrong, too: check the
/// claim number, then write in another statement. Right: one transaction, whose first statement changes the job
/// `WHERE id = ? AND claim_number = ? AND claim is open`, and which goes on only if that changed a row.
///
/// # What operators do
///
/// They count, list, change and purge while the pipeline runs. Reads do not delay workers. Changes by filter go in steps of at
/// most [`PAGE_MAX`](crate::bounds::PAGE_MAX) jobs, so that workers get their turn between them; the caller repeats the step
/// from where it ended, as slowly as it likes.
///
/// # Writing one
///
/// An engine is [`call`](Engine::call) and its [`Capabilities`]. Run the module `conformance` (a feature) on it.
pub trait Engine: Send + Sync + 'static {
    /// What this engine can promise.
    fn capabilities(&self) -> Capabilities;

    /// Does what is asked for. This is the one method of an engine: callers use the typed ones below, which all end here, and
    /// which no engine replaces. A request is checked before ([`EngineRequest`]); one that an engine does not know is
    /// [`unsupported`](EngineRequest::unsupported).
    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply>;

    /// The engine's time for a caller whose clock shows `now`.
    fn time(&self, now: Timestamp) -> Timestamp {
        now
    }

    /// Changes whenever a job may have become ready by a call through this value. Only a hint: time makes jobs ready, too,
    /// and so do other processes.
    fn hints(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Enqueues at most [`BATCH_MAX`](crate::bounds::BATCH_MAX) jobs, all or none, and answers for each, in order. A key
    /// that its stage knows already changes nothing, whatever the state of that job: it is a duplicate, or its job was
    /// cancelled. Only with [`NewJob::again`] is the key of a cancelled job a new job; the cancelled one is forgotten then.
    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        ask!(self, Enqueue { jobs, now })
    }

    /// Says what the next job of a stage costs, and otherwise when to look again. Makes due jobs ready.
    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        ask!(self, Peek { stage: stage.clone(), now })
    }

    /// Claims ready jobs. Fewer than asked for, or none, is no error. A paused stage has none.
    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        ask!(self, Claim { request, now })
    }

    /// Lets claims expire this long from now, also those that expired but were not taken over. Answers for each whether it
    /// is still the newest: if not, stop working on that job.
    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        ask!(self, Renew { claims, visibility, now })
    }

    /// Ends a claim with its conclusion.
    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        let answer = self.finish_and_claim(claim, conclusion, Vec::new(), now);
        Box::pin(async move { Ok(answer.await?.0) })
    }

    /// The same, and claims a job for the worker that is free now, in one transaction: the best ready one of the first of these
    /// stages that has any. None if that one has another cost than asked for, or if a job of these stages is due and not ready
    /// yet: the caller then looks itself. An engine may always claim none. All requests are of one worker.
    fn finish_and_claim(
        &self,
        claim: Claim,
        conclusion: Conclusion,
        next: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> EngineAnswer<(Finished, Option<Claimed>)> {
        ask!(self, Finish { claim, conclusion, next, now })
    }

    /// Gives claims back: their jobs are ready again, and no try is used. Answers for each whether it was the newest.
    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        ask!(self, Release { claims, now })
    }

    /// Makes the open claims of a worker expire now, because its process is known to be dead; `None`: of every worker.
    /// Answers how many. The next claims count crashes.
    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        ask!(self, Abandon { worker: worker.map(str::to_owned), now })
    }

    /// Says that `process` works under this worker's name, and answers with another process that does, too. Called every few
    /// seconds. An earlier process that died is none: a restarted worker works at once, and a second one is found a call later.
    ///
    /// Engines of one process know no other.
    fn claim_name(&self, worker: &str, process: &str) -> EngineAnswer<Option<String>> {
        ask!(self, ClaimName { worker: worker.to_owned(), process: process.to_owned() })
    }

    /// Does what keeps the engine quick and small, such as writing a log back. Called every minute, in the background.
    fn tidy(&self) -> EngineAnswer<()> {
        ask!(self, Tidy)
    }

    /// Completes what is still to be sent, and gives back what no worker has. Called before a process ends.
    fn flush(&self) -> EngineAnswer<()> {
        ask!(self, Flush)
    }

    /// Every stage with its counts. Cheap with any number of jobs: engines keep counters and do not count rows.
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        ask!(self, Counts)
    }

    /// The same at one moment, at which no held job was about to be released: only these say that nothing is left to do. None:
    /// jobs have changed meanwhile, so ask again. It may read every held job.
    ///
    /// Engines whose counts and releases belong to the transactions that change jobs answer with [`counts`](Self::counts).
    fn settled_counts(&self, now: Timestamp) -> EngineAnswer<Option<Vec<StageCounts>>> {
        ask!(self, SettledCounts { now })
    }

    /// The counts for the jobs of one group that are not purged, without events.
    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        ask!(self, GroupCounts { group: group.to_owned() })
    }

    /// Jobs that match, in the order of their ids, after the given id; at most `limit`.
    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        ask!(self, Scan { filter, after, limit })
    }

    /// How many jobs match: what a change would affect. It may read every job.
    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        ask!(self, Matching { filter })
    }

    /// The evidence of a job's attempts, the oldest first.
    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        ask!(self, Evidence { job })
    }

    /// What the done jobs of a stage resulted in, in the order of their ids.
    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        ask!(self, Results { stage: stage.clone(), after, limit })
    }

    /// Changes one job that is not running. Ends an expired claim that was not taken over.
    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        ask!(self, Edit { job, edit, now })
    }

    /// Changes the jobs that match the filter and that the change applies to, after the given id; at most `limit`.
    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        ask!(self, Change { filter, change, after, limit, now })
    }

    /// Moves waiting and dead jobs of a stage to another stage of this engine: the first after the given id, at most `limit`.
    /// They keep key, group, priority, cost, delay, used tries and evidence, but may get another number. A job with a group is
    /// held if the new stage says so. A key that the new stage knows already stays where it is, and is answered. Each job
    /// moves in one step: no process finds it in both stages or in none.
    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        ask!(self, MoveToStage { from: from.clone(), to: to.clone(), after, limit, now })
    }

    /// What the process knows that runs this pipeline, beside its jobs. None: this engine cannot ask it, or no process runs it.
    fn runner_view(&self) -> EngineAnswer<Option<RunnerView>> {
        ask!(self, RunnerView)
    }

    /// Every stage with its settings.
    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        ask!(self, Stages)
    }

    /// Changes a stage's settings, for every process at once. A stage that no job has entered is made.
    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        ask!(self, SetStage { stage: stage.clone(), change, now })
    }

    /// Forgets at most `limit` done and cancelled jobs of a stage that have not changed since `before`, with their results,
    /// evidence and keys. Answers how many. Dead letters stay.
    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        ask!(self, Purge { stage: stage.clone(), before, limit })
    }

    /// Keeps the counts of this minute, unless they are kept already: rates and an estimated end survive restarts. Of old
    /// samples, one an hour stays ([`SAMPLES_RECENT`]), and none for longer than [`SAMPLES_KEPT`].
    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        ask!(self, Record { now })
    }

    /// The samples since then, the oldest first.
    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        ask!(self, Samples { since })
    }

    /// Takes waiting and dead jobs out of this engine, to move them to the engine `to`: the first that match after the given
    /// id, at most `limit`. They are cancelled, with a mark in place of their error ([`moving_to`](crate::moving_to)), and
    /// answered as they were. A move that was killed finds them by that mark.
    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        ask!(self, Withdraw { filter, to: to.to_owned(), after, limit, now })
    }

    /// Marks withdrawn jobs as jobs that the engine `to` has. Answers how many were not marked so before.
    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        ask!(self, ConfirmMoved { jobs, to: to.to_owned() })
    }

    /// Enqueues jobs of another engine as they were there, with the tries they have used and their evidence; dead letters
    /// stay dead. All or none, and a key that its stage knows already is a duplicate, as with
    /// [`enqueue`](Engine::enqueue), unless its job had moved away: that one is back, under its old number. A job with a
    /// group is held if a stage here says so, whatever it was there.
    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        ask!(self, Import { jobs, now })
    }

    /// Copies all jobs as of now to a file, while workers go on. The file must not exist; it appears when it is complete.
    /// Engines of a database server leave that to the server.
    fn backup(&self, target: &Path) -> EngineAnswer<()> {
        ask!(self, Backup { target: target.to_owned() })
    }
}
