//! What is there, what is missing, and what roles must be allowed: for people and for programs.

use serde_json::{Map, Value, json};

use super::error::ProvisionError;
use super::parameter::ParameterSpec;
use super::resources::Resource;
use super::roles;
use super::table::TableSpec;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// One needed resource and its state.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Its key or value.
    details: String,
    pub(super) state: State,
}

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It exists.
    Ready,
    /// It does not exist.
    Missing,
    /// It exists, but something is missing.
    Incomplete(&'static str),
    /// It exists with another definition and cannot be changed.
    Refused(ProvisionError),
    /// It was created in this run.
    Made,
}

impl Step {
    pub(super) fn table(table: &TableSpec, state: State) -> Self {
        let key: Vec<String> = table.key.iter().map(|(name, kind)| format!("{name} ({kind})")).collect();
        let details = format!("key {}; old items expire by `ttl`", key.join(", "));
        Self { kind: "table", name: table.name.clone(), details, state }
    }

    pub(super) fn parameter(parameter: &ParameterSpec, state: State, value: Option<String>) -> Self {
        let details = match value {
            Some(value) => format!("value {value}"),
            None => format!("value {} from the config", parameter.value),
        };
        Self { kind: "parameter", name: parameter.address.name.clone(), details, state }
    }

    /// Why it cannot be created.
    pub(super) fn problem(&self) -> Option<ProvisionError> {
        if let State::Refused(error) = &self.state { Some(error.clone()) } else { None }
    }

    /// The state in JSON.
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
        let label = match self.state {
            State::Ready => "exists",
            State::Made => "created",
            _ => self.word(),
        };
        let style = match self.state {
            State::Ready | State::Made => GOOD,
            State::Missing | State::Incomplete(_) => WARN,
            State::Refused(_) => BAD,
        };
        let why = if let State::Incomplete(why) = self.state { format!(" ({why})") } else { String::new() };
        format!(
            "{style}{:10}{style:#}  {kind} {STRONG}{name}{STRONG:#}{why}  {FAINT}{details}{FAINT:#}",
            label
        )
    }

    fn json(&self) -> Value {
        let Self { kind, name, details, .. } = self;
        json!({ "kind": kind, "name": name, "state": self.word(), "details": details })
    }
}

/// Writes the report. IAM policies are part of the plan only.
pub(super) fn say(
    steps: &[Step],
    wanted: &[Resource],
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
        output.line(format_args!("\n{FAINT}IAM policy of the role {role}:{FAINT:#}\n{text}"))?;
    }
    if steps.iter().any(|step| step.state != State::Ready) {
        output.note("nothing was created; `tollway provision aws --apply` creates what is missing");
    }
    Ok(())
}
