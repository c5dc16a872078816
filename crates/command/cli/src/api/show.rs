//! `tollway api show`: every field of an api, and where it comes from.

use serde_json::json;
use tollway::Config;
use tollway::config::Api;
use tollway_config::suggest;

use super::{fields, toml};
use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::{FAINT, STRONG};

/// Lines are wrapped here.
const COLUMNS: usize = 80;
/// Where values begin: behind the key and its origin.
const VALUES_AT: usize = 26;

/// Show every field of an api, and where it comes from
///
/// From the config, from the profile that the api uses, or the default. `documented` is what the vendor's page at
/// `documented_at` says. Values of headers that are usually secrets are not shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway api show notion
  tollway api show notion --toml                as a section to copy into a config
  tollway api show notion --json | jq .fields.rate")]
pub(crate) struct Arguments {
    /// An api of the config, or a shipped profile; `tollway api list` lists them
    #[arg(add = complete_names::apis())]
    name: String,
    /// Print the TOML to copy into a config
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = context.config_if_any()?;
    let api = find(&config, &arguments.name)?;
    let output = context.output();
    if arguments.toml {
        output.bytes(toml::text(&api, &config).as_bytes())?;
    } else if output.is_json() {
        let values = fields::json(&api).into_iter().map(|(key, value)| {
            let from = api.origin(&key).as_str();
            (key, json!({ "value": value, "from": from }))
        });
        let fields: serde_json::Map<_, _> = values.collect();
        output.json(&json!({
            "name": api.name().as_str(),
            "configured": config.api(&arguments.name).is_some(),
            "profile": api.profile_name().map(|name| name.as_str()),
            "fields": fields,
        }))?;
    } else {
        write(&api, &config, context)?;
    }
    Ok(Exit::DONE)
}

pub(crate) fn find(config: &Config, name: &str) -> Result<Api, Failure> {
    let configured = config.api(name).map(|api| Api::clone(api));
    configured.or_else(|| Api::profile(name)).ok_or_else(|| {
        let names = config.apis().iter().map(|api| api.name().as_str());
        let names: Vec<&str> =
            names.chain(Api::profiles().iter().map(|profile| profile.name().as_str())).collect();
        let failure = Failure::not_found(format!("neither the config nor the profiles have an api {name:?}"));
        match suggest::meant(name, &names) {
            Some(meant) => failure.advise(format!("did you mean {meant:?}?")),
            None => failure.advise("`tollway api list` lists them"),
        }
    })
}

fn write(api: &Api, config: &Config, context: &Context) -> Result<(), Failure> {
    let output = context.output();
    let source = match (config.api(api.name().as_str()), api.profile_name()) {
        (Some(_), Some(profile)) => format!("in the config, over the profile {profile}"),
        (Some(_), None) => "in the config".to_owned(),
        (None, _) => format!("shipped profile; write [apis.{}] into a config to use it", api.name()),
    };
    output.line(format_args!("{STRONG}{}{STRONG:#}  {FAINT}{source}{FAINT:#}", api.name()))?;
    for (key, value) in fields::texts(api, config) {
        let origin = api.origin(key).as_str();
        for (number, line) in wrapped(&value).iter().enumerate() {
            if number == 0 {
                output.line(format_args!("  {key:14} {FAINT}{origin:8}{FAINT:#} {line}"))?;
            } else {
                output.line(format_args!("{:VALUES_AT$}{line}", ""))?;
            }
        }
    }
    Ok(())
}

/// Lines of at most the remaining width. A word that is longer, such as an address, has a line of its own.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS - VALUES_AT => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
