//! What is there, what is missing, and what roles must be allowed: for people and for programs.

use serde_json::{Map, Value, json};

use super::error::ProvisionError;
use super::resources::{Resource, Wanted};
use super::roles;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// One needed resource and its state.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: &'static str,
    pub(super) name: String,
    details: String,
    pub(super) state: State,
}

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It exists.
    Ready,
    /// It exists with a value of its own, which stays: how it is.
    ReadyWith(String),
    /// It does not exist.
    Missing,
    /// It exists, but something is missing or different.
    Incomplete(String),
    /// It exists with another definition and cannot be changed.
    Refused(ProvisionError),
    /// It was created, or changed, in this run.
    Made,
    /// It was deleted in this run.
    Removed,
    /// It was there before `--apply`, so it was not deleted.
    Kept,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Nothing,
    Applied,
    Destroyed,
}

impl State {
    /// Whether there is nothing to do.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Ready | Self::ReadyWith(_))
    }

    /// The state in JSON.
    fn word(&self) -> &'static str {
        match self {
            Self::Ready | Self::ReadyWith(_) => "there",
            Self::Missing => "missing",
            Self::Incomplete(_) => "incomplete",
            Self::Refused(_) => "refused",
            Self::Made => "made",
            Self::Removed => "removed",
            Self::Kept => "kept",
        }
    }
}

impl Step {
    pub(super) fn new(resource: &Resource, state: State) -> Self {
        let details = match &state {
            State::ReadyWith(details) => details.clone(),
            _ => resource.details(),
        };
        Self { kind: resource.kind(), name: resource.name().to_owned(), details, state }
    }

    /// Why it cannot be created.
    pub(super) fn problem(&self) -> Option<ProvisionError> {
        if let State::Refused(error) = &self.state { Some(error.clone()) } else { None }
    }

    fn line(&self) -> String {
        let Self { kind, name, details, .. } = self;
        let label = match self.state {
            State::Ready | State::ReadyWith(_) => "exists",
            State::Made => "created",
            State::Removed => "deleted",
            _ => self.state.word(),
        };
        let style = match self.state {
            State::Ready | State::ReadyWith(_) | State::Made | State::Removed => GOOD,
            State::Missing | State::Incomplete(_) | State::Kept => WARN,
            State::Refused(_) => BAD,
        };
        let why = match &self.state {
            State::Incomplete(why) => format!(" ({why})"),
            State::Kept => " (not made by `--apply`)".to_owned(),
            _ => String::new(),
        };
        format!("{style}{label:10}{style:#}  {kind} {STRONG}{name}{STRONG:#}{why}  {FAINT}{details}{FAINT:#}")
    }

    fn json(&self) -> Value {
        let Self { kind, name, details, .. } = self;
        json!({ "kind": kind, "name": name, "state": self.state.word(), "details": details })
    }
}

/// Writes the report. JSON has the IAM policies, too.
pub(super) fn say(steps: &[Step], wanted: &Wanted, done: Done, context: &Context) -> Result<(), Failure> {
    let output = context.output();
    if output.is_json() {
        let policies =
            roles::ROLES.iter().map(|(name, role)| ((*name).to_owned(), roles::policy(wanted, *role)));
        let iam: Map<String, Value> = policies.collect();
        let steps: Vec<Value> = steps.iter().map(Step::json).collect();
        let (applied, destroyed) = (done == Done::Applied, done == Done::Destroyed);
        return output
            .json(&json!({ "applied": applied, "destroyed": destroyed, "steps": steps, "iam": iam }));
    }
    steps.iter().try_for_each(|step| output.line(step.line()))?;
    if done == Done::Nothing
        && steps.iter().all(|step| step.problem().is_none())
        && steps.iter().any(|step| !step.state.is_ready())
    {
        output.note("nothing was created; `tollway provision aws --apply` creates what is missing");
    }
    if let Some(kept) = steps.iter().find(|step| step.state == State::Kept) {
        output.note(format_args!(
            "what `--apply` did not make was kept; `--destroy --all NAME` deletes it, with all that is in it: --all {}",
            kept.name
        ));
    }
    Ok(())
}
