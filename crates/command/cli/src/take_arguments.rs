//! Arguments shared by `take`, `run`, `usage`, `why` and `reset`: subject, limits, costs, wait and id.

use std::str::FromStr;

use tollway::core::bounds::WAIT_MAX;
use tollway::core::read_span;
use tollway::{Limit, Limiter, Name, Policy, Span};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::wait::TakeOptions;

/// The subject, and limits that replace the config's.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArguments {
    /// The subject [default: one shared by all callers without a subject]
    #[arg(long, short, value_name = "NAME", value_parser = read_subject)]
    pub(crate) subject: Option<String>,
    /// A limit that replaces the config's, e.g. "200 requests / minute"; repeatable
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<Limit>,
}

impl SubjectArguments {
    /// Whether `--limit` was given.
    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }
}

/// The costs of a take.
#[derive(Debug, clap::Args)]
pub(crate) struct CostArguments {
    /// The cost in a unit, e.g. tokens=3750; repeatable [default: requests=1]
    #[arg(long = "cost", value_name = "UNIT=AMOUNT")]
    pub(crate) costs: Vec<CostArgument>,
}

/// All options of a take: shared by `take` and `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct TakeArguments {
    #[command(flatten)]
    pub(crate) whose: SubjectArguments,
    #[command(flatten)]
    pub(crate) how_much: CostArguments,
    /// Maximum wait, e.g. 30s; 0 never waits [default: the policy's max_wait]
    #[arg(long, value_name = "TIME", value_parser = read_wait)]
    max_wait: Option<Span>,
    /// An id of your choice: a retry with the same id within ten minutes is charged once
    #[arg(long)]
    id: Option<String>,
}

impl TakeArguments {
    /// The take under this policy.
    pub(crate) fn options<'a>(&'a self, policy: &'a str) -> Result<TakeOptions<'a>, Failure> {
        self.how_much.check()?;
        Ok(TakeOptions {
            policy,
            subject: self.whose.subject.as_deref(),
            costs: &self.how_much.costs,
            max_wait: self.max_wait,
            id: self.id.as_deref(),
        })
    }
}

/// `tokens=3750`.
#[derive(Clone, Debug)]
pub(crate) struct CostArgument {
    pub(crate) unit: String,
    pub(crate) amount: u64,
}

impl CostArguments {
    /// Rejects a unit that is given twice: either could be meant.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut units: Vec<&str> = self.costs.iter().map(|cost| cost.unit.as_str()).collect();
        units.sort_unstable();
        match units.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Failure::usage(format!("--cost gives {} twice", pair[0]))),
            None => Ok(()),
        }
    }
}

impl FromStr for CostArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a cost; write it like tokens=3750");
        let (unit, amount) = text.split_once('=').ok_or_else(wrong)?;
        let unit = Name::new(unit.trim()).map_err(|error| error.to_string())?.to_string();
        Ok(Self { unit, amount: Limit::read_amount(amount.trim())? })
    }
}

/// An empty subject comes from an unset variable more often than from a user who means it.
fn read_subject(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the subject is empty; leave -s out to count for all callers together".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Reads `30s`, `5m`, `250ms` or `0` on the command line.
pub(crate) fn read_wait(text: &str) -> Result<Span, String> {
    let wait = if text == "0" { Span::ZERO } else { read_span(text)? };
    if wait > WAIT_MAX {
        return Err(format!("a wait of {wait} exceeds the maximum of {WAIT_MAX}"));
    }
    Ok(wait)
}

impl SubjectArguments {
    /// The limiter for this policy: with the limits of `--limit`, else with the config's.
    pub(crate) fn limiter(&self, policy: &str, context: &Context) -> Result<Limiter, Failure> {
        if self.limits.is_empty() {
            return context.limiter(&context.config_or_limits()?);
        }
        let name = Name::new(policy).map_err(|error| Failure::usage(format!("policy name: {error}")))?;
        let brought = Policy::of_limits(name, self.limits.clone());
        let brought = brought.map_err(|error| Failure::new(Exit::USAGE, error))?;
        context.limiter_with(&context.config_if_any()?, brought)
    }
}
