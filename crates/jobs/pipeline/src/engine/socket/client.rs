//! Asks the process that owns the jobs.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tollway_core::{Name, Retry, Span, Timestamp};
use tollway_socket::SocketClient;

use super::protocol::{Call, encode};
use super::socket_path;
use crate::engine::checks::refuse;
use crate::engine::sqlite::owner_pid;
use crate::run::RunnerView;
use crate::{
    Administration, Capabilities, Change, Changed, Claim, ClaimRequest, Claimed, Conclusion, Edit, Edited,
    Engine, EngineAnswer, EngineError, EngineFault, Enqueued, Evidence, Filter, Finished, Job, JobId,
    JobResult, MovedJob, NewJob, Page, Peek, Sample, StageChange, StageCounts, StageMove, StageSettings,
};

/// The jobs of a process that runs a pipeline on this machine.
pub struct SocketEngine {
    file: Arc<Path>,
    capabilities: Capabilities,
    clock: Option<OwnersClock>,
    client: SocketClient,
}

/// The time of the process that owns the jobs: it began with the machine's date, and goes on evenly whatever becomes of that.
#[derive(Clone, Copy)]
struct OwnersClock {
    at: Timestamp,
    then: Instant,
}

impl OwnersClock {
    /// None: the times of calls count as they are, or that process is of a version that has no clock.
    async fn ask(file: &Path, client: &SocketClient) -> Result<Option<Self>, EngineError> {
        let said = client
            .ask(encode(&Call::Time { now: Timestamp::EPOCH })?)
            .await
            .map_err(|error| lost(file, &error))?;
        // After the answer: a time that is ahead would put the owner's clock ahead, a little more with each command.
        let then = Instant::now();
        let at = decode(&said).unwrap_or(Timestamp::EPOCH);
        Ok((at > Timestamp::EPOCH).then_some(Self { at, then }))
    }

    fn now(&self) -> Timestamp {
        self.at.plus(self.then.elapsed().into())
    }
}

impl SocketEngine {
    /// Connects to the process that owns this file and runs its pipeline. None: no process listens there. One that does and
    /// does not answer is an error that names it.
    pub async fn connect(file: &Path) -> Result<Option<Self>, EngineError> {
        let Some(client) = client(file)? else { return Ok(None) };
        let said = client.ask(encode(&Call::Capabilities)?).await.map_err(|error| lost(file, &error))?;
        let clock = OwnersClock::ask(file, &client).await?;
        Ok(Some(Self { file: file.into(), capabilities: decode(&said)?, clock, client }))
    }

    /// Whether a process runs the pipeline of this file. It may be suspended.
    pub fn is_served(file: &Path) -> bool {
        !matches!(client(file), Ok(None))
    }

    fn ask<T: DeserializeOwned + Send + 'static>(&self, call: &Call) -> EngineAnswer<T> {
        match encode(call) {
            Ok(line) => {
                let (asked, file) = (self.client.ask(line), self.file.clone());
                Box::pin(async move { decode(&asked.await.map_err(|error| lost(&file, &error))?) })
            }
            Err(error) => refuse(error),
        }
    }
}

fn client(file: &Path) -> Result<Option<SocketClient>, EngineError> {
    let path = socket_path(file);
    SocketClient::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => lost(file, &error),
        _ => {
            let message = format!("{} cannot be used: {error}", path.display());
            EngineError { fault: EngineFault::Network, retry: Retry::Safe, message }
        }
    })
}

fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice::<Result<T, EngineError>>(line).unwrap_or_else(|error| {
        Err(EngineError::caller(format!(
            "the process that runs the pipeline answered otherwise than expected ({error}): restart it with this version"
        )))
    })
}

fn lost(file: &Path, error: &io::Error) -> EngineError {
    let unclear = |message| EngineError { fault: EngineFault::Network, retry: Retry::Unclear, message };
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            let message = "too many calls wait already; try again later".to_owned();
            EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message }
        }
        io::ErrorKind::TimedOut => unclear(unanswered(file)),
        _ => {
            unclear(format!("the process that runs the pipeline did not answer ({error}); it may have ended"))
        }
    }
}

/// Which process does not answer, and what to do.
fn unanswered(file: &Path) -> String {
    let file_name = file.display();
    let Some(pid) = owner_pid(file) else {
        return format!(
            "the process that runs the pipeline of {file_name} does not answer; it may be suspended"
        );
    };
    format!(
        "process {pid}, which runs the pipeline of {file_name}, does not answer. See `ps -o pid,stat,args -p {pid}`: if it is \
         suspended (T), `kill -CONT {pid}` lets it go on; `kill -KILL {pid}` ends it, and the next run tries its jobs again"
    )
}

impl Engine for SocketEngine {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.clock.map_or(now, |clock| clock.now())
    }

    fn enqueue(&self, jobs: Vec<NewJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.ask(&Call::Enqueue { jobs, now: self.time(now) })
    }

    fn peek(&self, stage: &Name, now: Timestamp) -> EngineAnswer<Peek> {
        self.ask(&Call::Peek { stage: stage.clone(), now: self.time(now) })
    }

    fn claim(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        self.ask(&Call::Claim { request, now: self.time(now) })
    }

    fn renew(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.ask(&Call::Renew { claims, visibility, now: self.time(now) })
    }

    fn finish(&self, claim: Claim, conclusion: Conclusion, now: Timestamp) -> EngineAnswer<Finished> {
        self.ask(&Call::Finish { claim, conclusion, now: self.time(now) })
    }

    fn release(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        self.ask(&Call::Release { claims, now: self.time(now) })
    }

    fn abandon(&self, worker: Option<&str>, now: Timestamp) -> EngineAnswer<u64> {
        self.ask(&Call::Abandon { worker: worker.map(str::to_owned), now: self.time(now) })
    }
}

impl Administration for SocketEngine {
    fn counts(&self) -> EngineAnswer<Vec<StageCounts>> {
        self.ask(&Call::Counts)
    }

    fn group_counts(&self, group: &str) -> EngineAnswer<Vec<StageCounts>> {
        self.ask(&Call::GroupCounts { group: group.to_owned() })
    }

    fn scan(&self, filter: Filter, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<Job>> {
        self.ask(&Call::Scan { filter, after, limit })
    }

    fn matching(&self, filter: Filter) -> EngineAnswer<u64> {
        self.ask(&Call::Matching { filter })
    }

    fn evidence(&self, job: JobId) -> EngineAnswer<Vec<Evidence>> {
        self.ask(&Call::Evidence { job })
    }

    fn results(&self, stage: &Name, after: Option<JobId>, limit: usize) -> EngineAnswer<Page<JobResult>> {
        self.ask(&Call::Results { stage: stage.clone(), after, limit })
    }

    fn edit(&self, job: JobId, edit: Edit, now: Timestamp) -> EngineAnswer<Edited> {
        self.ask(&Call::Edit { job, edit, now: self.time(now) })
    }

    fn change(
        &self,
        filter: Filter,
        change: Change,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Changed> {
        self.ask(&Call::Change { filter, change, after, limit, now: self.time(now) })
    }

    fn move_to_stage(
        &self,
        from: &Name,
        to: &Name,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<StageMove> {
        self.ask(&Call::MoveToStage { from: from.clone(), to: to.clone(), after, limit, now })
    }

    fn runner_view(&self) -> EngineAnswer<Option<RunnerView>> {
        self.ask(&Call::RunnerView)
    }

    fn stages(&self) -> EngineAnswer<Vec<StageSettings>> {
        self.ask(&Call::Stages)
    }

    fn set_stage(&self, stage: &Name, change: StageChange, now: Timestamp) -> EngineAnswer<()> {
        self.ask(&Call::SetStage { stage: stage.clone(), change, now: self.time(now) })
    }

    fn purge(&self, stage: &Name, before: Timestamp, limit: usize) -> EngineAnswer<u64> {
        self.ask(&Call::Purge { stage: stage.clone(), before, limit })
    }

    fn record(&self, now: Timestamp) -> EngineAnswer<()> {
        self.ask(&Call::Record { now: self.time(now) })
    }

    fn samples(&self, since: Timestamp) -> EngineAnswer<Vec<Sample>> {
        self.ask(&Call::Samples { since })
    }

    fn withdraw(
        &self,
        filter: Filter,
        to: &str,
        after: Option<JobId>,
        limit: usize,
        now: Timestamp,
    ) -> EngineAnswer<Page<Job>> {
        self.ask(&Call::Withdraw { filter, to: to.to_owned(), after, limit, now: self.time(now) })
    }

    fn confirm_moved(&self, jobs: Vec<JobId>, to: &str) -> EngineAnswer<u64> {
        self.ask(&Call::ConfirmMoved { jobs, to: to.to_owned() })
    }

    fn import(&self, jobs: Vec<MovedJob>, now: Timestamp) -> EngineAnswer<Vec<Enqueued>> {
        self.ask(&Call::Import { jobs, now: self.time(now) })
    }

    fn backup(&self, target: &Path) -> EngineAnswer<()> {
        // The other process may be in another folder.
        match std::path::absolute(target) {
            Ok(target) => self.ask(&Call::Backup { target }),
            Err(error) => refuse(EngineError::caller(format!("{} is no path: {error}", target.display()))),
        }
    }
}
