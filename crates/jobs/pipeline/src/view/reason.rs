//! Why a job is where it is, in words, and what to do.

use serde::Serialize;
use tollway_core::humanize::{self, count, counted, printable, printable_name};

use super::wording::{Wording, shell_word};
use super::{GroupLeft, JobFacts};
use crate::{MOVED_MARK, State, moving_to};

/// Why, and what next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Sentences.
    pub why: Vec<String>,
    /// Commands to type.
    pub next: Vec<String>,
}

impl Reason {
    /// What facts say.
    pub fn of(facts: &JobFacts, wording: &Wording) -> Self {
        let mut reason = Self { why: Vec::new(), next: Vec::new() };
        match facts.job.state {
            State::Ready => reason.ready(facts, wording),
            State::Delayed => reason.delayed(facts, wording),
            State::Held => reason.held(facts, wording),
            State::Running => reason.running(facts, wording),
            State::Dead => reason.dead(facts, wording),
            State::Done => reason.done(facts, wording),
            State::Cancelled => reason.cancelled(facts, wording),
        }
        if !facts.job.state.has_left() && facts.job.state != State::Dead {
            reason.stage_is_unknown(facts);
            reason.paused(facts, wording);
        }
        reason
    }

    fn stage_is_unknown(&mut self, facts: &JobFacts) {
        if facts.stage.is_none() {
            self.why.push("the config has no such stage: no process claims its jobs".to_owned());
        }
    }

    fn paused(&mut self, facts: &JobFacts, wording: &Wording) {
        if facts.paused {
            let stage = &facts.job.stage;
            self.why.push(format!("stage {stage} is paused: none of its jobs is claimed"));
            self.next.push(wording.command(&format!("resume {stage}")));
        }
    }

    fn ready(&mut self, facts: &JobFacts, wording: &Wording) {
        let counts = &facts.counts;
        if facts.runs == Some(false) {
            self.why.push("no process runs this pipeline".to_owned());
            self.next.push(wording.command("run"));
        }
        if let Some((policy, until)) = &facts.quota {
            let wait = humanize::span(until.since(facts.now));
            let at = wording.moment(*until, facts.now);
            self.why
                .push(format!("it waits for quota of {policy}, for {wait} (until {at}); that uses no try"));
        }
        let running = counts.of(State::Running);
        if running >= u64::from(facts.concurrency) && facts.concurrency > 0 {
            self.why.push(format!("all {} places of its stage are taken", counted(running, "running jobs")));
        }
        let others = counts.of(State::Ready).saturating_sub(1);
        let queue = match others {
            0 => "no other job of its stage is ready".to_owned(),
            others => format!(
                "{} of its stage are ready too; higher priorities are claimed first, then older jobs",
                counted(others, "other jobs")
            ),
        };
        self.why.push(queue);
    }

    fn delayed(&mut self, facts: &JobFacts, wording: &Wording) {
        let job = &facts.job;
        let wait = humanize::span(job.due_at.since(facts.now));
        let at = wording.moment(job.due_at, facts.now);
        let due = match job.due_at > facts.now {
            true => format!("it is due in {wait} ({at})"),
            false => "it is due, and ready at the next look of a worker".to_owned(),
        };
        let cause = match (&facts.stage, job.error.is_empty()) {
            (_, true) => "it was enqueued with a delay".to_owned(),
            (Some(stage), false) if job.failures > 0 => {
                format!("attempt {} of {} failed: {}", job.failures, stage.tries, printable(&job.error))
            }
            (_, false) => format!("its last attempt did not finish it: {}", printable(&job.error)),
        };
        self.why.extend([cause, due]);
    }

    fn held(&mut self, facts: &JobFacts, wording: &Wording) {
        let group = printable_name(facts.job.group.as_deref().unwrap_or_default());
        let left = facts.group_left.iter();
        let left = left.map(|GroupLeft { stage, jobs }| format!("{} in {stage}", count(*jobs)));
        let left = left.collect::<Vec<_>>().join(", ");
        self.why.push(match left.is_empty() {
            true => format!("it is held for its group {group}, which has just left the stages before"),
            false => {
                format!("it is held until its group {group} has left the stages before; jobs left: {left}")
            }
        });
        let quoted = shell_word(facts.job.group.as_deref().unwrap_or_default());
        self.next.push(wording.command(&format!("status --group {quoted}")));
    }

    fn running(&mut self, facts: &JobFacts, wording: &Wording) {
        let job = &facts.job;
        let since = humanize::span(facts.now.since(job.changed_at));
        let worker = printable_name(&job.worker);
        self.why.push(format!("worker {worker} claimed it {since} ago"));
        let expires = wording.moment(job.due_at, facts.now);
        self.why.push(match job.due_at > facts.now {
            true => format!("its claim expires at {expires}, unless the worker renews it"),
            false => format!("its claim expired at {expires}: the next free worker gets the job, as a crash"),
        });
        if facts.runs == Some(false) {
            self.why.push("no process runs this pipeline: it is tried again when one does".to_owned());
        }
    }

    fn dead(&mut self, facts: &JobFacts, wording: &Wording) {
        let (id, job) = (facts.job.id, &facts.job);
        let error = printable(&job.error);
        let used_up = facts.stage.as_ref().and_then(|stage| match job {
            job if job.failures >= stage.tries => Some(format!("all {} tries failed", stage.tries)),
            job if job.crashes >= stage.crashes => Some(format!("it crashed {} times", job.crashes)),
            _ => None,
        });
        let why = used_up.unwrap_or_else(|| "its handler gave it up".to_owned());
        self.why.push(format!("{why}; the last error: {error}"));
        self.next.extend(
            [format!("dead edit {id}"), format!("dead redrive --id {id}"), format!("dead drop --id {id}")]
                .map(|rest| wording.command(&rest)),
        );
    }

    fn done(&mut self, facts: &JobFacts, wording: &Wording) {
        let outputs = facts.result.as_ref().map_or(0, |result| result.outputs);
        self.why.push(match outputs {
            0 => "it is done, and handed nothing on".to_owned(),
            outputs => format!("it is done, and handed on {}", counted(outputs, "jobs")),
        });
        self.forgotten(facts, wording);
    }

    fn cancelled(&mut self, facts: &JobFacts, wording: &Wording) {
        let error = &facts.job.error;
        if let Some((to, _)) = moving_to(error) {
            let to = printable(to);
            self.why.push(format!("it is on its way to {to}: if `migrate` does not run, run it again"));
        } else if let Some(to) = error.strip_prefix(MOVED_MARK) {
            self.why.push(format!("it moved to {}", printable(to)));
        } else {
            self.why.push("an operator cancelled it, or dropped the dead letter".to_owned());
        }
        self.forgotten(facts, wording);
    }

    /// Until when its key is known.
    fn forgotten(&mut self, facts: &JobFacts, wording: &Wording) {
        if let Some(stage) = &facts.stage {
            let at = wording.moment(facts.job.changed_at.plus(stage.retention), facts.now);
            self.why.push(format!("it is forgotten at {at}; until then its key cannot be enqueued again"));
        }
    }
}
