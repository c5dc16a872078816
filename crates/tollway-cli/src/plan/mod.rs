//! `tollway plan`: how long a backlog takes and which limit is the bottleneck, before anything runs.
//!
//! `read` parses the arguments, `scenarios` makes policies of them, the library `tollway-plan` forecasts, `text` and `json`
//! write the answer.

mod json;
mod read;
mod scenarios;
mod text;

use clap::ArgGroup;
use tollway::{Span, Timestamp};
use tollway_plan::{Forecast, Load};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::words;

use read::UnitCost;

/// The most scenarios beside the limits as they are: more columns do not fit a terminal.
const WHAT_IFS_MAX: usize = 3;

const EXAMPLES: &str = "\
Examples:
  A million items of two calls each under a vendor's limit, and under the one it may give you:
    tollway plan --items 1M --calls 2 --limit \"200 requests / minute\" \\
      --what-if \"250 requests / minute\"

  Several limits in several units, and which of them holds it up:
    tollway plan --items 20k --limit \"5 requests / minute\" --limit \"250k tokens / minute\" \\
      --cost tokens=3750

  A policy of the config, and how many workers it takes:
    tollway plan --items 20k --policy adobe --latency 1.5s

Assumed: nothing is used yet, nobody else takes, and calls go out as soon as they are granted.
Rates are those of the long run, rounded down.";

/// How long a backlog takes, and which limit holds it up
///
/// From what an item takes and what the limits allow: items a minute, an hour and a day, when the last one is done, which
/// limit is the bottleneck and how much of the others is left over. Nothing is taken and no store is opened.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("which limits").required(true).args(["limits", "policy"]))]
pub(crate) struct Arguments {
    /// How many items there are: 1000000, 1_000_000 or 1M; left out, only rates are told
    #[arg(long, value_name = "N", value_parser = read::items, allow_negative_numbers = true)]
    items: Option<u64>,
    /// How many calls one item makes
    #[arg(long, value_name = "N", default_value = "1", value_parser = read::calls, allow_negative_numbers = true)]
    calls: u64,
    /// A limit, as in "200 requests / minute"; may be repeated
    #[arg(long = "limit", value_name = "LIMIT")]
    limits: Vec<String>,
    /// The limits of this policy in the config, instead of --limit
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// What one call takes of a unit, as in tokens=3750; may be repeated. One request unless given
    #[arg(long = "cost", value_name = "UNIT=N", value_parser = read::unit_cost)]
    costs: Vec<UnitCost>,
    /// Another limit in place of the one of its name, or of the only one; each gets a column, at most 3
    #[arg(long, value_name = "LIMIT")]
    what_if: Vec<String>,
    /// How long one call takes, as in 1.5s: tells how many workers are enough
    #[arg(long, value_name = "TIME", value_parser = read::latency)]
    latency: Option<Span>,
    /// When the first call is made, as in 2026-11-15T08:00:00+01:00 [default: now]
    #[arg(long, value_name = "TIME", value_parser = read::moment)]
    start: Option<Timestamp>,
    /// How long jobs are kept, as in 7d: warns if the backlog takes longer
    #[arg(long, value_name = "TIME", value_parser = read::retention, requires = "items")]
    retention: Option<Span>,
}

/// The forecast of one scenario, and how it is headed.
struct Column {
    heading: String,
    /// The limit that is tried, as it was written.
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

/// What to keep in mind when reading the answer.
fn remark(columns: &[Column], load: &Load, output: &Output) {
    if load.items.is_some() {
        output.note(
            "\nassumed: nothing is used yet, nobody else takes, calls go out as soon as they are granted",
        );
    }
    if let Some(Column { forecast, .. }) = columns.first() {
        remark_on_limits(forecast, output);
    }
    for Column { heading, forecast, .. } in columns {
        let Some(finish) = forecast.finish.filter(|_| forecast.within_retention(load) == Some(false)) else {
            continue;
        };
        output.warning(format_args!(
            "{heading}: jobs are kept for {}, but the backlog takes {}; what is not done by then would be lost",
            words::span(load.retention.unwrap_or_default()),
            text::time(finish, load.start),
        ));
    }
}

fn remark_on_limits(forecast: &Forecast, output: &Output) {
    let policy = forecast.scenario.policy();
    if policy.shadow() {
        output.note(format_args!("policy {} is a shadow, planned as if it were not", policy.name()));
    }
    if !forecast.exact {
        output.note(
            "too many calls to look at several limits together: the time is that of the slowest alone, \
             and may be about a window of it longer",
        );
    }
    if let (Some(longest), Some(bottleneck)) = (forecast.takes_longest(), forecast.bottleneck())
        && longest != bottleneck
    {
        output.note(format_args!(
            "{} alone takes longest for this backlog; in the long run {} does",
            longest.name(),
            bottleneck.name()
        ));
    }
}
