//! What `take`, `run`, `usage` and `why` have in common: which policy, for whom, how much.

use std::str::FromStr;

use tollway::core::bounds::WAIT_MAX;
use tollway::core::read_span;
use tollway::{Limit, Limiter, Name, Policy, Span};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::turn::Turn;

/// For whom, and limits that need no config file.
#[derive(Debug, clap::Args)]
pub(crate) struct Whose {
    /// For whom it counts; without it, all who name none share one meter
    #[arg(long, short, value_name = "NAME")]
    pub(crate) subject: Option<String>,
    /// A limit of the policy, as in "200 requests / minute", instead of the config's; may be given several times
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<Limit>,
}

impl Whose {
    /// Whether limits were brought along.
    pub(crate) fn brought_limits(&self) -> bool {
        !self.limits.is_empty()
    }
}

/// How much.
#[derive(Debug, clap::Args)]
pub(crate) struct HowMuch {
    /// How much of a unit it takes, as in tokens=3750; may be given several times [default: requests=1]
    #[arg(long = "cost", value_name = "UNIT=AMOUNT")]
    pub(crate) costs: Vec<CostArgument>,
}

/// All that a take may say: what `take` and `run` share.
#[derive(Debug, clap::Args)]
pub(crate) struct Asked {
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) how_much: HowMuch,
    /// The longest wait, as in 30s; 0: now or not at all [default: what the policy allows]
    #[arg(long, value_name = "TIME", value_parser = read_wait)]
    max_wait: Option<Span>,
    /// An id of yours: the same take repeated with it within ten minutes counts once
    #[arg(long)]
    id: Option<String>,
}

impl Asked {
    /// The take under this policy.
    pub(crate) fn turn<'a>(&'a self, policy: &'a str) -> Result<Turn<'a>, Failure> {
        self.how_much.check()?;
        Ok(Turn {
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

impl HowMuch {
    /// An error if a unit stands twice: nobody can know which was meant.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let mut units: Vec<&str> = self.costs.iter().map(|cost| cost.unit.as_str()).collect();
        units.sort_unstable();
        match units.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Failure::usage(format!("--cost names {} twice", pair[0]))),
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

/// Reads `30s`, `5m`, `250ms` or `0` on the command line.
pub(crate) fn read_wait(text: &str) -> Result<Span, String> {
    let wait = if text == "0" { Span::ZERO } else { read_span(text)? };
    if wait > WAIT_MAX {
        return Err(format!("a wait of {wait} is more than the {WAIT_MAX} allowed"));
    }
    Ok(wait)
}

impl Whose {
    /// The limiter that knows this policy: with the limits that were brought along, else with the config's.
    pub(crate) fn limiter(&self, policy: &str, context: &Context) -> Result<Limiter, Failure> {
        if self.limits.is_empty() {
            return context.limiter(&context.config_unless_brought()?);
        }
        let name =
            Name::new(policy).map_err(|error| Failure::usage(format!("the policy's name: {error}")))?;
        let brought = Policy::of_limits(name, self.limits.clone());
        let brought = brought.map_err(|error| Failure::new(Exit::USAGE, error))?;
        context.limiter_with(&context.config_if_any()?, brought)
    }
}
