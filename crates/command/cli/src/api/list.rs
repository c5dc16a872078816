//! `tollway api list`: the apis of the config, then the shipped profiles.

use serde_json::{Value, json};
use tollway::Config;
use tollway::config::Api;

use super::fields;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{FAINT, STRONG};

/// Lines are cut here.
const COLUMNS: usize = 80;

/// List your apis, then the shipped profiles
///
/// Each with its limits and how its rate is found. A profile that the config uses under its own name is listed once, as
/// your api. Needs no config.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway api list
  tollway api list --json | jq -r '.apis[] | select(.from == \"config\") | .name'")]
pub(crate) struct Arguments {}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let config = context.config_if_any()?;
    let output = context.output();
    let configured = config.apis().iter().map(|api| ("config", api.as_ref()));
    let unused = |profile: &&Api| config.api(profile.name().as_str()).is_none();
    let shipped = Api::profiles().iter().filter(unused).map(|profile| ("profile", profile));
    let apis: Vec<(&str, &Api)> = configured.chain(shipped).collect();
    if output.is_json() {
        let listed: Vec<Value> = apis.iter().map(|(from, api)| entry(from, api)).collect();
        output.json(&json!({ "apis": listed }))?;
        return Ok(Exit::DONE);
    }
    let width = apis.iter().map(|(_, api)| api.name().as_str().chars().count()).max().unwrap_or(0);
    for (from, api) in apis {
        let name = api.name().as_str();
        // Name and origin, each with two spaces behind it.
        let room = COLUMNS.saturating_sub(width + 2 + 7 + 2);
        let limits = cut(&summary(api, &config), room);
        output.line(format_args!("{STRONG}{name:width$}{STRONG:#}  {FAINT}{from:7}{FAINT:#}  {limits}"))?;
    }
    Ok(Exit::DONE)
}

fn entry(from: &str, api: &Api) -> Value {
    let mut entry = fields::json(api);
    entry.insert("name".to_owned(), json!(api.name().as_str()));
    entry.insert("from".to_owned(), json!(from));
    entry.insert("profile".to_owned(), json!(api.profile_name().map(|name| name.as_str())));
    Value::Object(entry)
}

fn summary(api: &Api, config: &Config) -> String {
    let mut parts = Vec::new();
    let limits = fields::fixed_limits(api, config);
    if !limits.is_empty() {
        parts.push(fields::joined(&limits));
    }
    parts.extend(api.concurrency().map(|calls| format!("{calls} at once")));
    parts.extend(api.rate().map(|rate| match rate.settings() {
        None => "rate auto".to_owned(),
        Some(settings) => format!("rate {} to {} a second", settings.min(), settings.max()),
    }));
    parts.join("; ")
}

/// At most this many characters.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(3)).collect();
    format!("{}...", kept.trim_end())
}
