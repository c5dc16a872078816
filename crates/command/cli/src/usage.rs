//! `tollway usage`: the usage of every limit.

use std::sync::Arc;

use serde_json::json;
use tollway::{Limiter, Policy, SetLimitError, TakeError, Timestamp};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::meters::Meter;
use crate::output::{BAD, FAINT, STRONG};
use crate::take_arguments::SubjectArguments;
use crate::usage_subjects::AccountsInUse;
use crate::vendor_quotas::VendorQuotas;

/// Show the usage of every limit, and when it resets
///
/// Also lists what a vendor's headers say is left of its quotas, for an api with `rate = "auto"`; the subjects with use, most
/// used first; and takes whose limits the config does not have. Reads the store
/// and takes nothing. If other takes are booked ahead, the figures are those after the last booking,
/// where a new take would queue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway usage                      every policy of the config, and its subjects
  tollway usage gemini --subjects 50 one policy, and its 50 most used subjects
  tollway usage gemini -s team-a     one policy, for one subject
  tollway usage adobe --json | jq '.policies[0].limits[0].remaining'")]
pub(crate) struct Arguments {
    /// The policy [default: every policy in the config]
    #[arg(add = complete_names::policies())]
    policy: Option<String>,
    #[command(flatten)]
    whose: SubjectArguments,
    /// How many subjects to list for each policy, at most 10,000; 0 lists none
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "subject")]
    subjects: usize,
}

impl Arguments {
    /// The limiter. A file of the config is not needed to see what takes with `--limit` have used.
    fn limiter(&self, context: &Context) -> Result<Limiter, Failure> {
        let Some(policy) = &self.policy else {
            return match context.config_path_if_any()? {
                Some(_) => context.limiter(&context.config()?),
                None => context.limiter(&context.config_if_any()?),
            };
        };
        self.whose.limiter(policy, context)
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    if arguments.policy.is_none() && arguments.whose.has_limits() {
        return Err(Failure::usage("--limit needs a policy"));
    }
    let limiter = arguments.limiter(context)?;
    follow(&limiter, context);
    let policies = match &arguments.policy {
        Some(policy) => vec![policy_in_force(&limiter, policy)?],
        None => limiter.policies(),
    };
    let accounts = match arguments.whose.subject {
        Some(_) => AccountsInUse::not_listed(),
        None => AccountsInUse::list(&limiter, arguments.policy.as_deref(), arguments.subjects, context),
    };
    if policies.is_empty() && accounts.is_empty() {
        context.config_or_limits()?;
    }
    let mut shown = Vec::new();
    for policy in &policies {
        let name = policy.name().as_str();
        let subject = arguments.whose.subject.as_deref();
        let (meters, held_until) = meters_and_hold(&limiter, policy, subject, context)?;
        let quotas = VendorQuotas::read(&limiter, policy.name(), subject, context)?;
        let subjects = accounts.subjects_of(&limiter, policy, context)?;
        if !context.output().is_json() {
            show(name, &meters, held_until, arguments, context)?;
            quotas.show(context)?;
            subjects.iter().try_for_each(|subjects| subjects.show(context))?;
        }
        let mut found = json!({ "policy": name, "subject": subject, "limits": meters });
        if let Some(subjects) = subjects {
            found["subjects"] = json!(subjects.rows);
            found["subjects_in_use"] = json!(subjects.in_use);
        }
        if let Some(quotas) = quotas.json() {
            found["vendor_quotas"] = quotas;
        }
        if let Some(until) = held_until {
            found["held_until"] = json!(until.to_string());
        }
        shown.push(found);
    }
    if context.output().is_json() {
        let mut answer = json!({ "policies": shown });
        if let Some(others) = accounts.not_in_config(&policies) {
            answer["not_in_config"] = json!(others.policies);
            answer["all_accounts_seen"] = json!(accounts.saw_all());
        }
        context.output().json(&answer)?;
    } else {
        accounts.not_in_config(&policies).iter().try_for_each(|others| others.show(context))?;
        accounts.note_bound(context);
    }
    Ok(Exit::DONE)
}

/// The meters of a policy, for one subject.
pub(crate) fn meters_of(
    limiter: &Limiter,
    policy: &Policy,
    subject: Option<&str>,
    context: &Context,
) -> Result<Vec<Meter>, Failure> {
    meters_and_hold(limiter, policy, subject, context).map(|(meters, _)| meters)
}

/// The same, and until when the vendor holds calls back.
fn meters_and_hold(
    limiter: &Limiter,
    policy: &Policy,
    subject: Option<&str>,
    context: &Context,
) -> Result<(Vec<Meter>, Option<Timestamp>), Failure> {
    let name = policy.name().as_str();
    let usage = limiter.usage(name).subject(subject.unwrap_or_default()).now()?;
    let meters = Meter::of_usage(policy, &usage, context.now()).into_iter();
    let meters = meters.map(|meter| meter.with_origin(|limit| limiter.origin(name, limit))).collect();
    Ok((meters, usage.held_until))
}

/// The policy of this name, with its current limits.
pub(crate) fn policy_in_force(limiter: &Limiter, name: &str) -> Result<Arc<Policy>, Failure> {
    limiter.policy(name).map(|handle| handle.policy()).map_err(|error| {
        let guessed = matches!(&error, TakeError::UnknownPolicy { meant: Some(_), .. });
        let policies = limiter.policies();
        let failure = Failure::from(error);
        if guessed || policies.is_empty() {
            failure
        } else {
            let names = policies.iter().map(|policy| policy.name().as_str());
            failure.advise(format_args!("the policies are {}", humanize::first_of(names)))
        }
    })
}

/// Applies the limits that are set in the store or read from a source. If the store fails, the next operation reports
/// it.
pub(crate) fn follow(limiter: &Limiter, context: &Context) {
    warn_of(limiter.follow_settings().now(), context);
    warn_of(limiter.sources_read().now(), context);
}

/// Limits given with `--limit` cannot be set in the store: that is no reason to warn.
pub(crate) fn warn_of(followed: Result<(), SetLimitError>, context: &Context) {
    if let Err(error) =
        followed.or_else(|error| if matches!(error, SetLimitError::NotKept) { Ok(()) } else { Err(error) })
    {
        let line = format!("cannot read the limits set in the store: {error}");
        if !crate::log::hold_back(&line, &error.to_string()) {
            context.output().warning(line);
        }
    }
}

fn show(
    name: &str,
    meters: &[Meter],
    held_until: Option<Timestamp>,
    arguments: &Arguments,
    context: &Context,
) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    let whose = match &arguments.whose.subject {
        Some(subject) => format!(" {FAINT}for{FAINT:#} {subject}"),
        None => String::new(),
    };
    output.line(format_args!("{STRONG}{name}{STRONG:#}{whose}"))?;
    Meter::lines(meters, now).iter().try_for_each(|line| output.line(line))?;
    for from in meters.iter().filter_map(|meter| meter.origin_words(now)) {
        output.sentence("  ", FAINT, &from)?;
    }
    if let Some(until) = held_until {
        let (at, wait) = (humanize::moment(until, now), humanize::span(until.since(now)));
        output.line(format_args!("  {BAD}held by the vendor until {at}{BAD:#}, for another {wait}"))?;
    }
    meters
        .iter()
        .filter_map(|meter| meter.booked_ahead(now))
        .try_for_each(|ahead| output.line(format_args!("  {ahead}")))?;
    if let Some(until) = meters.iter().find_map(|meter| meter.booked_until(now)) {
        let (until, wait) = (humanize::moment(until, now), humanize::span(until.since(now)));
        output.line(format_args!("  {FAINT}as of {until}: takes are booked for the next {wait}{FAINT:#}"))?;
    }
    Ok(())
}
