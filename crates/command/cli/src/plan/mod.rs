//! `tollway plan`: forecasts the duration of a backlog and its bottleneck.
//!
//! `parse` parses the arguments, `scenarios` turns them into policies, `tollway_forecast::plan` forecasts, `text` and
//! `json` write the result.

mod json;
pub(crate) mod parse;
mod scenarios;
pub(crate) mod text;

use clap::ArgGroup;
use tollway::{Span, Timestamp};
use tollway_forecast::plan::{Forecast, Load};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::humanize;
use crate::output::Output;

use parse::UnitCost;

/// The most `--what-if` scenarios: more columns do not fit a terminal.
const WHAT_IFS_MAX: usize = 3;

const EXAMPLES: &str = "\
Examples:
  A million items of two calls each, under the current limit and a higher one:
    tollway plan --items 1M --calls 2 --limit \"200 requests / minute\" \\
      --what-if \"250 requests / minute\"

  Several limits in several units, and which one is the bottleneck:
    tollway plan --items 20k --limit \"5 requests / minute\" --limit \"250k tokens / minute\" \\
      --cost tokens=3750

  A policy of the config, and how many workers it needs:
    tollway plan --items 20k --policy adobe --latency 1.5s

Assumes that nothing is used yet, no other caller takes, and calls start when granted.
Rates are long-run rates, rounded down.";

/// Forecast how long a backlog takes, and its bottleneck
///
/// Computes from the cost of an item and the limits: items per minute, hour and day, the finish time, which limit is the
/// bottleneck and the slack of the others. Takes nothing and opens no store.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("which limits").required(true).args(["limits", "policy"]))]
pub(crate) struct Arguments {
    /// Number of items: 1000000, 1_000_000 or 1M; without it, only rates are shown
    #[arg(long, value_name = "N", value_parser = parse::items, allow_negative_numbers = true)]
    items: Option<u64>,
    /// Calls per item
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse::calls, allow_negative_numbers = true)]
    calls: u64,
    /// A limit, e.g. "200 requests / minute"; repeatable
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<String>,
    /// The limits of this policy in the config, instead of --limit
    #[arg(long, value_name = "NAME", add = complete_names::policies())]
    policy: Option<String>,
    /// The cost of one call in a unit, e.g. tokens=3750; repeatable [default: requests=1]
    #[arg(long = "cost", value_name = "UNIT=N", value_parser = parse::unit_cost)]
    costs: Vec<UnitCost>,
    /// Compare with this limit in place of the one with its name, or the only one; repeatable, at most 3
    #[arg(long, value_name = "LIMIT")]
    what_if: Vec<String>,
    /// Duration of one call, e.g. 1.5s; shows how many workers are enough
    #[arg(long, value_name = "TIME", value_parser = parse::latency)]
    latency: Option<Span>,
    /// Start time, e.g. 2026-11-15T08:00:00+01:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse::moment)]
    start: Option<Timestamp>,
    /// How long jobs are kept, e.g. 7d; warns if the backlog takes longer
    #[arg(long, value_name = "TIME", value_parser = parse::retention, requires = "items")]
    retention: Option<Span>,
}

/// The forecast of one scenario with its heading.
struct Column {
    heading: String,
    /// The limit of `--what-if`, as given.
    what_if: Option<String>,
    forecast: Forecast,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    if arguments.what_if.len() > WHAT_IFS_MAX {
        let message = format!("--what-if is given {} times", arguments.what_if.len());
        return Err(Failure::usage(message).advise(format!("compare at most {WHAT_IFS_MAX} at a time")));
    }
    let load = Load {
        items: arguments.items,
        calls_per_item: arguments.calls,
        start: arguments.start.unwrap_or_else(|| context.now()),
        latency: arguments.latency,
        retention: arguments.retention,
    };
    let columns = scenarios::forecast(arguments, &load, context)?;
    let output = context.output();
    if output.is_json() {
        output.json(&json::of(&columns, &load))?;
    } else {
        text::write(&columns, &load, output)?;
    }
    remark(&columns, &load, output);
    Ok(Exit::DONE)
}

/// Assumptions and warnings about the forecast.
fn remark(columns: &[Column], load: &Load, output: &Output) {
    if load.items.is_some() {
        output.note("\nassumes: nothing used yet, no other callers, calls start when granted");
    }
    if let Some(Column { forecast, .. }) = columns.first() {
        remark_on_limits(forecast, output);
    }
    for Column { heading, forecast, .. } in columns {
        let Some(finish) = forecast.finish.filter(|_| forecast.within_retention(load) == Some(false)) else {
            continue;
        };
        output.warning(format_args!(
            "{heading}: jobs are kept for {}, but the backlog takes {}; unfinished jobs would be lost",
            humanize::span(load.retention.unwrap_or_default()),
            text::time(finish, load.start),
        ));
    }
}

fn remark_on_limits(forecast: &Forecast, output: &Output) {
    let policy = forecast.scenario.policy();
    if policy.shadow() {
        output.note(format_args!("policy {} is a shadow, planned as if it were enforced", policy.name()));
    }
    if !forecast.exact {
        output.note(
            "too many calls to combine several limits: the time is that of the slowest limit alone and may be \
             up to one of its windows longer",
        );
    }
    if let (Some(longest), Some(bottleneck)) = (forecast.takes_longest(), forecast.bottleneck())
        && longest != bottleneck
    {
        output.note(format_args!(
            "{} alone takes longest for this backlog; in the long run it is {}",
            longest.name(),
            bottleneck.name()
        ));
    }
}
