//! `tollway why`: explains why a take is denied, and when to retry.

use anstyle::Style;
use serde_json::json;
use tollway::core::{Algorithm, Reading};
use tollway::{Denied, Limit, Limiter};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::layout::{COLUMNS, printable};
use crate::meters::Meter;
use crate::output::{BAD, FAINT, GOOD, STRONG};
use crate::shell::shell_word_or_dots;
use crate::similar_subjects;
use crate::take_arguments::{CostArguments, SubjectArguments};
use crate::usage::{follow, meters_of, policy_in_force};
use crate::wait::TakeOptions;

/// Explain why a take is denied, and when to retry
///
/// Checks a take without charging it: which limit denies it, how much of that limit is used, when it would be granted,
/// and which amount would be enough. Exits 0 if it would be granted and 75 if it would be denied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway why adobe
  tollway why gemini -s team-a --cost tokens=3750")]
pub(crate) struct Arguments {
    /// The policy
    #[arg(add = complete_names::policies())]
    policy: String,
    #[command(flatten)]
    whose: SubjectArguments,
    #[command(flatten)]
    how_much: CostArguments,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    arguments.how_much.check()?;
    let limiter = arguments.whose.limiter(&arguments.policy, context)?;
    follow(&limiter, context);
    let options = TakeOptions {
        policy: &arguments.policy,
        subject: arguments.whose.subject.as_deref(),
        costs: &arguments.how_much.costs,
        max_wait: None,
        id: None,
    };
    match options.preview(&limiter)? {
        None => {
            say_granted(&limiter, &options, context)?;
            Ok(Exit::DONE)
        }
        Some(denied) => {
            say_denied(&options, &denied, arguments.whose.has_limits(), context)?;
            Ok(Exit::DENIED)
        }
    }
}

fn say_granted(limiter: &Limiter, options: &TakeOptions<'_>, context: &Context) -> Result<(), Failure> {
    let policy = policy_in_force(limiter, options.policy)?;
    let meters = meters_of(limiter, &policy, options.subject, context)?;
    let (output, now) = (context.output(), context.now());
    let unused = options.subject.filter(|_| !meters.iter().any(Meter::is_used));
    let similar =
        unused.map(|subject| similar_subjects::find(limiter, options.policy, subject)).unwrap_or_default();
    if output.is_json() {
        let mut answer = json!({
            "would_grant": true, "policy": options.policy, "subject": options.subject, "limits": meters,
        });
        if unused.is_some() {
            answer["usage_kept"] = false.into();
            answer["similar_subjects"] = json!(similar);
        }
        return output.json(&answer);
    }
    if policy.shadow() {
        output.line(format_args!(
            "{GOOD}would be granted{GOOD:#}: policy {} is a shadow and never denies",
            options.policy
        ))?;
    } else {
        output.line(format_args!("{GOOD}would be granted now{GOOD:#}"))?;
    }
    Meter::lines(&meters, now).iter().try_for_each(|line| output.line(line))?;
    let Some(subject) = unused else { return Ok(()) };
    output.line(format_args!("  no usage is kept for subject {}", printable(subject)))?;
    similar.iter().try_for_each(|similar| {
        let command = format!("tollway why {} -s {}", options.policy, shell_word_or_dots(similar));
        output.line(format_args!("    {FAINT}it is kept for another that ends alike:{FAINT:#} {command}"))
    })
}

/// A limit without room for its charge.
struct Lack<'a> {
    limit: &'a Limit,
    reading: &'a Reading,
    charge: u64,
}

impl Lack<'_> {
    /// The smallest capacity that would be enough.
    fn enough(&self) -> u64 {
        self.reading.used.saturating_add(self.charge)
    }

    /// The limit with that capacity, as `tollway limit set` reads it; `None` if no amount would help.
    fn remedy(&self) -> Option<String> {
        let enough = self.enough();
        match self.limit.algorithm() {
            Algorithm::Paced(_) | Algorithm::Adaptive(_) => None,
            Algorithm::Bucket { period, burst } if *burst != self.limit.amount() => {
                let algorithm = Algorithm::Bucket { period: *period, burst: enough };
                let limit = Limit::new(self.limit.amount(), self.limit.unit().clone(), algorithm).ok()?;
                Some(format!("\"{limit}\""))
            }
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Concurrency { .. } => {
                self.limit.with_amount(enough).ok().map(|_| enough.to_string())
            }
        }
    }
}

fn lacking<'a>(options: &TakeOptions<'_>, denied: &'a Denied) -> Vec<Lack<'a>> {
    let policy = denied.policy();
    let costs = options.costs.iter().map(|cost| (cost.unit.as_str(), cost.amount));
    let Ok(cost) = policy.cost(costs) else { return Vec::new() };
    let charges: Vec<u64> = policy.amounts(&cost).map(|(_, charge)| charge).collect();
    let limits = policy.limits().iter().zip(denied.decision().readings_of(0)).zip(charges);
    let lack = |((limit, reading), charge)| Lack { limit, reading, charge };
    limits.map(lack).filter(|lack| lack.charge > lack.reading.remaining).collect()
}

fn say_denied(
    options: &TakeOptions<'_>,
    denied: &Denied,
    brought: bool,
    context: &Context,
) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    let lacks = lacking(options, denied);
    let booked_until = denied.decision().readings_of(0).iter().map(|reading| reading.as_of).max();
    let booked_until = booked_until.filter(|until| until.since(now) > tollway::Span::from_millis(50));
    if output.is_json() {
        return output.json(&json!({
            "would_grant": false,
            "policy": options.policy,
            "subject": options.subject,
            "limit": denied.limit().map(|limit| limit.name().as_str()),
            "held": denied.held(),
            "retry_after_ms": denied.retry_after().as_micros().div_ceil(1_000),
            "retry_at": denied.retry_at().to_string(),
            "booked_until": booked_until.map(|until| until.to_string()),
            "lacking": lacks.iter().map(|lack| json!({
                "limit": lack.limit.name().as_str(), "cost": lack.charge, "remaining": lack.reading.remaining,
                "enough": booked_until.is_none().then(|| lack.enough()),
            })).collect::<Vec<_>>(),
            "limits": Meter::of_readings(denied.policy().limits(), denied.decision().readings_of(0), now),
        }));
    }
    if denied.held() {
        return say_held(options, denied, context);
    }
    let mut by = denied.limit().map(ToString::to_string).unwrap_or_default();
    if "denied by ".len() + by.len() > COLUMNS {
        by = by.replacen(": ", ":\n  ", 1);
    }
    let of = format!("of policy {}", options.policy);
    let between = if "denied by ".len() + by.len() + 1 + of.len() <= COLUMNS { " " } else { "\n  " };
    output.line(format_args!("{BAD}denied{BAD:#} by {STRONG}{by}{STRONG:#}{between}{of}"))?;
    output.line(format_args!("  {}", whom(options)))?;
    if let Some(until) = booked_until {
        let (at, wait) = (humanize::moment(until, now), humanize::span(until.since(now)));
        output.line(format_args!("  queue: other takes are booked for the next {wait}, until {at}"))?;
    }
    // Behind a queue no amount would be enough, and a limit given with `--limit` cannot be set in the store.
    let remedies = booked_until.is_none() && !brought;
    lacks.iter().try_for_each(|lack| say_lack(lack, options, remedies, context))?;
    let (wait, at) = (humanize::duration(denied.retry_after()), humanize::moment(denied.retry_at(), now));
    let text = format!("retry in {wait}, at {at}, or earlier if units are refunded");
    output.sentence("  ", STRONG, &text)
}

/// No limit denies: the vendor refused a call and asked to wait, or an operator stopped the policy.
fn say_held(options: &TakeOptions<'_>, denied: &Denied, context: &Context) -> Result<(), Failure> {
    let (output, now) = (context.output(), context.now());
    output.line(format_args!("{BAD}denied{BAD:#}: {denied}"))?;
    output.line(format_args!("  {}", whom(options)))?;
    if denied.stopped() {
        return output.line(format_args!("  `tollway limit set` starts it again"));
    }
    let at = humanize::moment(denied.retry_at(), now);
    output.line(format_args!("  held by the vendor until {at}: it refused a call and asked to wait"))?;
    output.line(format_args!("  `tollway reset {}` forgets the hold", options.policy))
}

fn whom(options: &TakeOptions<'_>) -> String {
    match options.subject {
        Some(subject) => format!("subject {subject}"),
        None => "shared by all callers without a subject".to_owned(),
    }
}

fn say_lack(
    lack: &Lack<'_>,
    options: &TakeOptions<'_>,
    remedies: bool,
    context: &Context,
) -> Result<(), Failure> {
    let Lack { limit, reading, charge } = lack;
    let name = limit.name();
    let used = humanize::count(reading.used);
    let slots = limit.has_slots();
    let of = humanize::counted(reading.capacity, if slots { "slots" } else { limit.unit().as_str() });
    let output = context.output();
    let (left, requested) = (humanize::count(reading.remaining), humanize::count(*charge));
    let text = format!("{name}: {used} of {of} used, {left} left, {requested} requested");
    output.sentence("  ", Style::new(), &text)?;
    let Some(remedy) = lack.remedy().filter(|_| remedies) else { return Ok(()) };
    let enough = format!("{} would be enough:", humanize::count(lack.enough()));
    let command = format!("tollway limit set {}.{name} {remedy}", options.policy);
    // The command stays whole, so that it can be copied.
    let between = if 4 + enough.len() + 1 + command.len() <= COLUMNS { " " } else { "\n      " };
    output.line(format_args!("    {FAINT}{enough}{between}{command}{FAINT:#}"))
}
