//! What is there, what is missing, and what roles must be allowed: for people and for programs.

use serde_json::{Map, Value, json};

use super::error::ProvisionError;
use super::parameter::ParameterWanted;
use super::roles;
use super::table::TableWanted;
use super::wanted::Wanted;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// One thing that is needed, and how it is with it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// What it is or would be like.
    details: String,
    pub(super) state: State,
}

/// How it is with a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// All of it is there.
    Ready,
    /// Nothing of it.
    Missing,
    /// A part of it is missing.
    Incomplete(&'static str),
    /// It is there as something else.
    Refused(ProvisionError),
    /// It was made just now.
    Made,
}

impl Step {
    pub(super) fn table(table: &TableWanted, state: State) -> Self {
        let key: Vec<String> = table.key.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
        let details = format!("key {}; old items vanish by `ttl`", key.join(", "));
        Self { kind: "table", name: table.name.clone(), details, state }
    }

    pub(super) fn parameter(parameter: &ParameterWanted, state: State, value: Option<String>) -> Self {
        let details = match value {
            Some(value) => format!("value {value}"),
            None => format!("value {}, as the config has it", parameter.value),
        };
        Self { kind: "parameter", name: parameter.address.name.clone(), details, state }
    }

    /// Why it cannot be made.
    pub(super) fn problem(&self) -> Option<ProvisionError> {
        if let State::Refused(error) = &self.state { Some(error.clone()) } else { None }
    }

    fn word(&self) -> &'static str {
        match self.state {
            State::Ready => "there",
            State::Missing => "missing",
            State::Incomplete(_) => "incomplete",
            State::Refused(_) => "refused",
            State::Made => "made",
        }
    }

    fn line(&self) -> String {
        let Self { kind, name, details, .. } = self;
        let style = match self.state {
            State::Ready | State::Made => GOOD,
            State::Missing | State::Incomplete(_) => WARN,
            State::Refused(_) => BAD,
        };
        let why = if let State::Incomplete(why) = self.state { format!(" ({why})") } else { String::new() };
        format!(
            "{style}{:10}{style:#}  {kind} {STRONG}{name}{STRONG:#}{why}  {FAINT}{details}{FAINT:#}",
            self.word()
        )
    }

    fn json(&self) -> Value {
        let Self { kind, name, details, .. } = self;
        json!({ "kind": kind, "name": name, "state": self.word(), "details": details })
    }
}

/// Says it all. The policies of IAM are part of the plan only: who applies has seen it.
pub(super) fn say(
    steps: &[Step],
    wanted: &[Wanted],
    applied: bool,
    context: &Context,
) -> Result<(), Failure> {
    let output = context.output();
    let policies = roles::policies(wanted);
    if output.is_json() {
        let iam: Map<String, Value> =
            policies.into_iter().map(|(role, policy)| (role.to_owned(), policy)).collect();
        let steps: Vec<Value> = steps.iter().map(Step::json).collect();
        return output.json(&json!({ "applied": applied, "steps": steps, "iam": iam }));
    }
    steps.iter().try_for_each(|step| output.line(step.line()))?;
    if applied || steps.iter().any(|step| step.problem().is_some()) {
        return Ok(());
    }
    for (role, policy) in policies {
        let text = serde_json::to_string_pretty(&policy);
        let text = text.map_err(|error| Failure::new(Exit::FAILED, error))?;
        output
            .line(format_args!("\n{FAINT}what the role {role} must be allowed, in IAM:{FAINT:#}\n{text}"))?;
    }
    if steps.iter().any(|step| step.state != State::Ready) {
        output.note("nothing was made; `tollway provision aws --apply` makes what is missing");
    }
    Ok(())
}
