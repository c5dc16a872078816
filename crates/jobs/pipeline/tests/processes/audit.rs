//! What the callers of an engine were told, in a file that no engine knows.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tollway_core::{Name, Span, Timestamp};
use tollway_pipeline::{
    Capabilities, Claim, ClaimRequest, Claimed, Conclusion, Engine, EngineAnswer, EngineReply, EngineRequest,
    Finished, JobId,
};

use crate::bugs::{self, Bug};
use crate::now;

/// A file with a line for each answer: time, process, what, stage, key, claim number. A line is one write, so a killed
/// process leaves no part of one.
pub(crate) struct Audit {
    file: File,
    process: String,
    keys: Mutex<HashMap<JobId, String>>,
}

impl Audit {
    pub(crate) fn open(path: &Path, process: &str) -> Arc<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Arc::new(Self { file, process: process.to_owned(), keys: Mutex::default() })
    }

    pub(crate) fn note(&self, what: &str, stage: &Name, key: &str, number: u64) {
        let (at, process, stage) = (now().as_micros(), &self.process, stage.as_str());
        (&self.file).write_all(format!("{at} {process} {what} {stage} {key} {number}\n").as_bytes()).unwrap();
    }

    fn claimed(&self, claimed: &Claimed) {
        let Claimed { claim, job, .. } = claimed;
        self.keys.lock().unwrap().insert(claim.job, job.key.clone());
        self.note("claimed", &claim.stage, &job.key, claim.number);
    }

    fn ended(&self, what: &str, claim: &Claim) {
        self.note(what, &claim.stage, &self.key(claim), claim.number);
    }

    fn key(&self, claim: &Claim) -> String {
        self.keys.lock().unwrap().get(&claim.job).cloned().unwrap()
    }
}

/// Jobs whose first two calls take longer than a claim lasts, and whose first claim is not renewed: one of some processes,
/// and no output.
pub(crate) fn is_slow(key: &str) -> bool {
    ["0-00013", "5-00013", "9-00013"].iter().any(|end| key.ends_with(end))
}

/// An engine whose answers are noted before their callers get them.
pub(crate) struct AuditedEngine {
    pub(crate) inner: Arc<dyn Engine>,
    pub(crate) audit: Arc<Audit>,
    /// What is wrong with it.
    pub(crate) bug: Option<Bug>,
    /// The process dies at this call of `finish` for the first stage, at the worst moment.
    pub(crate) dies_at: Option<u64>,
    pub(crate) finishes: AtomicU64,
}

/// Ends this process as `kill -9` does.
pub(crate) fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}

impl Engine for AuditedEngine {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn time(&self, now: Timestamp) -> Timestamp {
        self.inner.time(now)
    }

    fn hints(&self) -> Option<watch::Receiver<u64>> {
        self.inner.hints()
    }

    fn call(&self, request: EngineRequest) -> EngineAnswer<EngineReply> {
        use EngineReply as Reply;
        match request {
            EngineRequest::Claim { request, now } => reply(self.claimed(request, now), Reply::Claim),
            EngineRequest::Renew { claims, visibility, now } => {
                reply(self.renewed(claims, visibility, now), Reply::Renew)
            }
            EngineRequest::Finish { claim, conclusion, next, now } => {
                reply(self.finished(claim, conclusion, next, now), Reply::Finish)
            }
            EngineRequest::Release { claims, now } => reply(self.released(claims, now), Reply::Release),
            other => self.inner.call(other),
        }
    }
}

fn reply<T: Send + 'static>(answer: EngineAnswer<T>, of: fn(T) -> EngineReply) -> EngineAnswer<EngineReply> {
    Box::pin(async move { answer.await.map(of) })
}

impl AuditedEngine {
    fn claimed(&self, request: ClaimRequest, now: Timestamp) -> EngineAnswer<Vec<Claimed>> {
        let (answer, audit) = (self.inner.claim(request, now), self.audit.clone());
        Box::pin(async move {
            let claimed = answer.await?;
            claimed.iter().for_each(|claimed| audit.claimed(claimed));
            Ok(claimed)
        })
    }

    /// The first renewals of slow jobs get lost, as those of a machine that stands still do.
    fn renewed(&self, claims: Vec<Claim>, visibility: Span, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        let lost = |claim: &Claim| claim.number == 1 && is_slow(&self.audit.key(claim));
        let sent: Vec<Claim> = claims.iter().filter(|claim| !lost(claim)).cloned().collect();
        let lost: Vec<bool> = claims.iter().map(lost).collect();
        let (answer, audit) = (self.inner.renew(sent, visibility, now), self.audit.clone());
        Box::pin(async move {
            let mut renewed = answer.await?.into_iter();
            let answers: Vec<bool> =
                lost.into_iter().map(|lost| lost || renewed.next().unwrap_or(false)).collect();
            // The runner stops their workers, and does not answer for them.
            let taken_over = claims.iter().zip(&answers).filter(|(_, newest)| !**newest);
            taken_over.for_each(|(claim, _)| audit.ended("taken-over", claim));
            Ok(answers)
        })
    }

    fn finished(
        &self,
        claim: Claim,
        conclusion: Conclusion,
        next: Vec<ClaimRequest>,
        now: Timestamp,
    ) -> EngineAnswer<(Finished, Option<Claimed>)> {
        let what = match conclusion {
            Conclusion::Done { .. } => "done",
            Conclusion::Again { .. } => "again",
            Conclusion::Dead { .. } => "dead",
        };
        let first_stage = claim.stage.as_str() == "a";
        // Or at a later one, if the runner drops this call.
        let dies = first_stage
            && self.dies_at.is_some_and(|number| self.finishes.fetch_add(1, Ordering::SeqCst) >= number);
        let call =
            bugs::Finish { claim: claim.clone(), key: self.audit.key(&claim), conclusion, next, now, dies };
        let (bug, audit) = (self.bug, self.audit.clone());
        let answer = bugs::finish(self.inner.clone(), bug, call);
        Box::pin(async move {
            let (finished, next) = answer.await?;
            if dies && bug != Some(Bug::AnswerBeforeCommit) {
                die();
            }
            match finished {
                Finished::Committed { .. } => audit.ended(what, &claim),
                Finished::Repeated => audit.ended("repeated", &claim),
                Finished::Late => audit.ended("late", &claim),
            }
            if dies {
                die();
            }
            next.iter().for_each(|claimed| audit.claimed(claimed));
            Ok((finished, next))
        })
    }

    fn released(&self, claims: Vec<Claim>, now: Timestamp) -> EngineAnswer<Vec<bool>> {
        let (answer, audit) = (self.inner.release(claims.clone(), now), self.audit.clone());
        Box::pin(async move {
            let released = answer.await;
            // One that could not be given back is given up: it expires.
            let what = if released.is_ok() { "released" } else { "given-up" };
            claims.iter().for_each(|claim| audit.ended(what, claim));
            released
        })
    }
}
