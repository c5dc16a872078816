//! `tollway limit`: reads and changes limits at runtime.

use serde_json::{Value, json};
use tollway::source::Origin;
use tollway::{Config, Limit, Limiter, Policy, SetLimitError};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::layout::{COLUMNS, INDENT};
use crate::origin;
use crate::output::{FAINT, GOOD, STRONG};
use crate::usage::follow;

/// Show and change limits at runtime
///
/// `set` keeps the limit in the store. It overrides the policy's source and the config file. All processes that share the
/// store apply it within two seconds, without a restart; an idle one within 30 seconds, or after its next take. Only amount
/// and burst can be set; usage is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway limit get
  tollway limit set adobe.requests_per_minute 250
  tollway limit set adobe.requests_per_minute \"250 requests / minute\"
  tollway limit set adobe.requests_per_minute 0     # stop: nothing is granted until it is set again or cleared
  tollway limit clear adobe.requests_per_minute")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the current limits and their origin
    Get {
        /// A policy, or POLICY.LIMIT [default: all of the config]
        #[arg(add = complete_names::limits())]
        name: Option<String>,
    },
    /// Set a limit for all processes that share the store
    Set {
        /// POLICY.LIMIT, as `tollway limit get` lists them
        #[arg(add = complete_names::limits())]
        name: String,
        /// The new amount, or the whole limit with a new amount or burst
        to: String,
    },
    /// Return to the limit in the config file
    Clear {
        /// POLICY.LIMIT
        #[arg(add = complete_names::limits())]
        name: String,
    },
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let limiter = context.limiter(&config)?;
    follow(&limiter, context);
    match &arguments.action {
        Action::Get { name } => get(name.as_deref(), &config, &limiter, context)?,
        Action::Set { name, to } => {
            let (policy, limit) = split(name, &config)?;
            limiter.set_limit(policy, limit, to).now().map_err(not_set)?;
            changed(policy, limit, &config, &limiter, context)?;
        }
        Action::Clear { name } => {
            let (policy, limit) = split(name, &config)?;
            limiter.clear_limit(policy, limit).now().map_err(not_set)?;
            changed(policy, limit, &config, &limiter, context)?;
        }
    }
    Ok(Exit::DONE)
}

/// Names of policies and limits may contain dots, so the split follows the names in the config.
fn split<'a>(name: &'a str, config: &Config) -> Result<(&'a str, &'a str), Failure> {
    let splits = || name.match_indices('.').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let known = |(policy, limit): &(&str, &str)| {
        config.policy(policy).is_some_and(|policy| find(policy, limit).is_some())
    };
    let policy_known = |(policy, _): &(&str, &str)| config.policy(policy).is_some();
    splits().find(known).or_else(|| splits().find(policy_known)).or_else(|| splits().next()).ok_or_else(
        || {
            Failure::usage(format!("{name:?} is not a limit"))
                .advise("write it as POLICY.LIMIT; `tollway limit get` lists them")
        },
    )
}

fn find<'a>(policy: &'a Policy, limit: &str) -> Option<&'a Limit> {
    policy.limits().iter().find(|known| known.name().as_str() == limit)
}

fn not_set(error: SetLimitError) -> Failure {
    match error {
        SetLimitError::Policy(error) => error.into(),
        SetLimitError::UnknownLimit { .. } => Failure::not_found(error),
        SetLimitError::Store(ref cause) => Failure::new(Exit::of_store(cause), error),
        _ => Failure::usage(error),
    }
}

/// One limit: its current value and the one in the config.
struct Row<'a> {
    policy: &'a Policy,
    configured: &'a Limit,
    in_force: Limit,
    /// Whether it was set to 0.
    stopped: bool,
    origin: Origin,
}

impl<'a> Row<'a> {
    fn new(policy: &'a Policy, configured: &'a Limit, limiter: &Limiter) -> Self {
        let now = limiter.policy(policy.name().as_str()).ok().map(|handle| handle.policy());
        let now = now.and_then(|policy| find(&policy, configured.name().as_str()).cloned());
        let origin = limiter.origin(policy.name().as_str(), configured.name().as_str());
        let stopped = limiter.is_stopped(policy.name().as_str(), configured.name().as_str());
        Self { policy, configured, in_force: now.unwrap_or_else(|| configured.clone()), stopped, origin }
    }

    fn name(&self) -> String {
        format!("{}.{}", self.policy.name(), self.configured.name())
    }

    fn in_force(&self) -> String {
        if self.stopped { "0 (stopped)".to_owned() } else { self.in_force.to_string() }
    }

    fn json(&self) -> Value {
        json!({
            "policy": self.policy.name().as_str(),
            "limit": self.configured.name().as_str(),
            "in_force": self.in_force(),
            "amount": if self.stopped { 0 } else { self.in_force.amount() },
            "capacity": if self.stopped { 0 } else { self.in_force.capacity() },
            "config": self.configured.to_string(),
            "from": origin::word(&self.origin),
            "set_at": origin::set_at(&self.origin).map(|at| at.to_string()),
            "read_at": origin::read_at(&self.origin).map(|at| at.to_string()),
        })
    }

    fn origin(&self, context: &Context) -> String {
        let words = origin::words(&self.origin, context.now());
        match self.origin {
            Origin::Config => words,
            _ => format!("{words}; the config has {}", self.configured),
        }
    }
}

fn get(name: Option<&str>, config: &Config, limiter: &Limiter, context: &Context) -> Result<(), Failure> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    match name {
        None => rows.extend(config.policies().iter().flat_map(|policy| rows_of(policy, limiter))),
        Some(name) => match config.policy(name) {
            Some(policy) => rows.extend(rows_of(policy, limiter)),
            None => rows.push(row(name, config, limiter)?),
        },
    }
    let output = context.output();
    if output.is_json() {
        return output.json(&json!({ "limits": rows.iter().map(Row::json).collect::<Vec<_>>() }));
    }
    let width = |text: fn(&Row<'_>) -> String| rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (names, limits) = (width(|row| row.name()), width(|row| row.in_force()));
    let origins = rows.iter().map(|row| row.origin(context).len()).max().unwrap_or(0);
    let fits = names + limits + origins + 2 * INDENT.len() <= COLUMNS;
    rows.iter().try_for_each(|row| {
        let (name, limit, origin) = (row.name(), row.in_force(), row.origin(context));
        if fits {
            let limit = format!("{STRONG}{limit:limits$}{STRONG:#}");
            return output.line(format_args!("{name:names$}  {limit}  {FAINT}{origin}{FAINT:#}"));
        }
        output.line(name)?;
        output.sentence("  ", STRONG, &limit)?;
        output.sentence("  ", FAINT, &origin)
    })
}

fn rows_of<'a>(policy: &'a Policy, limiter: &Limiter) -> Vec<Row<'a>> {
    policy.limits().iter().map(|limit| Row::new(policy, limit, limiter)).collect()
}

fn row<'a>(name: &str, config: &'a Config, limiter: &Limiter) -> Result<Row<'a>, Failure> {
    let found = split(name, config).ok().and_then(|(policy, limit)| {
        let policy = config.policy(policy)?;
        Some((policy, find(policy, limit)?))
    });
    let (policy, limit) = found.ok_or_else(|| {
        Failure::not_found(format!("the config has no policy or limit {name:?}"))
            .advise("`tollway limit get` lists them")
    })?;
    Ok(Row::new(policy, limit, limiter))
}

fn changed(
    policy: &str,
    limit: &str,
    config: &Config,
    limiter: &Limiter,
    context: &Context,
) -> Result<(), Failure> {
    let row = row(&format!("{policy}.{limit}"), config, limiter)?;
    let output = context.output();
    if output.is_json() {
        return output.json(&row.json());
    }
    if output.is_quiet() {
        return Ok(());
    }
    let (name, origin) = (row.name(), row.origin(context));
    let (limit, origin) = (row.in_force(), format!("({origin})"));
    let fits = name.len() + limit.len() + origin.len() + " is now  ".len() <= COLUMNS;
    let between = if fits { " " } else { "\n  " };
    output.line(format_args!("{name} is now {GOOD}{limit}{GOOD:#}{between}{FAINT}{origin}{FAINT:#}"))
}
