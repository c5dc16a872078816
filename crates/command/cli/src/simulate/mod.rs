//! `tollway simulate`: replays a traffic log under a policy.
//!
//! `policies` builds the policies to compare, `simulation` opens the log and runs the replay of the library
//! `tollway_forecast::simulate`, `text`, `json` and `chart` write the summary, `outcomes` the calls. It does not open the commands' store.

mod chart;
mod json;
mod outcomes;
mod policies;
mod simulation;
mod text;

use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};
use tollway::core::{REQUESTS, read_span};
use tollway::{Limit, Span};
use tollway_forecast::simulate::{CostSource, Fields, Log, LogFormat, Replay, TrialPolicy};

use crate::complete_names;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use outcomes::OutcomesFile;
use simulation::{ChartFile, Simulation};

const EXAMPLES: &str = "\
Examples:
  tollway simulate access.log --policy api
  tollway simulate calls.jsonl --limit \"200 requests / minute\" --what-if \"250 requests / minute\"
  tollway simulate calls.csv --policy gemini --subject - --cost tokens=total_tokens --max-wait 30s
  zcat access.log.gz | tollway simulate - --policy api --svg chart.svg
  tollway simulate access.log --policy api --outcomes calls.jsonl

A what-if replaces the policy's limit of the same name; the default name is made of unit and period. \
If the policy has no limit of that name, the what-if replaces the whole policy.

Times are RFC 3339 or seconds, milliseconds, microseconds or nanoseconds since 1970.";

/// Replay a traffic log under a policy
///
/// Each line of the log is a take at its logged time, decided by the production engine. Nothing is counted in the store.
/// The log is JSON lines, CSV with a header, or an access log. Fields are detected from the first lines unless given.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("files").args(["svg", "outcomes"]).multiple(true)))]
pub(crate) struct Arguments {
    /// The log file; - is standard input
    #[arg(value_name = "LOG")]
    log: String,
    /// A policy of the config; or use --limit
    #[arg(
        long, value_name = "NAME", conflicts_with = "limit", add = complete_names::policies()
    )]
    policy: Option<String>,
    /// A limit, e.g. "200 requests / minute", without a config; repeatable
    #[arg(long, value_name = "TEXT")]
    limit: Vec<String>,
    /// Compare with this limit, side by side; repeatable
    #[arg(long, value_name = "TEXT", value_parser = |text: &str| text.parse::<Limit>())]
    what_if: Vec<Limit>,
    /// Maximum wait of a call, e.g. 30s [default: no waiting]
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    max_wait: Option<Span>,
    /// The format of the log [default: detected from its first lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatArgument>,
    /// The time field
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// The subject field; - if all calls share one subject
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    subject: Option<String>,
    /// The cost in a unit, from a field or a number; repeatable [default: fields named like units]
    #[arg(long, value_name = "UNIT=FIELD")]
    cost: Vec<CostSource>,
    /// Fail if more lines than this are unreadable [default: only warn]
    #[arg(long, value_name = "LINES")]
    max_bad: Option<u64>,
    /// Write a chart to this new file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the outcome of each call to this new file, one JSON object per line
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    /// Let --svg and --outcomes overwrite existing files
    #[arg(long, requires = "files")]
    force: bool,
}

/// The formats, as `--help` explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArgument {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
    /// Common or combined access log of web servers
    Clf,
}

impl From<FormatArgument> for LogFormat {
    fn from(format: FormatArgument) -> Self {
        match format {
            FormatArgument::Jsonl => Self::Jsonl,
            FormatArgument::Csv => Self::Csv,
            FormatArgument::Clf => Self::Clf,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let failure = |error| simulation::failure(error, &arguments.log);
    // First: without a log, nothing else matters.
    let (input, size) = simulation::open(&arguments.log).map_err(|error| failure(error.into()))?;
    let policies = policies::on_trial(arguments, context)?;
    let fields = fields(arguments, &policies)?;
    // Before the replay, which can take long.
    let chart = arguments.svg.as_deref().map(|path| ChartFile::new(path, arguments.force)).transpose()?;
    let log = Log::read(input, arguments.format.map(Into::into), fields).map_err(failure)?;
    print_assumptions(arguments, &log, &policies, context);
    let max_wait = arguments.max_wait.unwrap_or(Span::ZERO);
    let outcomes = arguments.outcomes.as_deref();
    let mut outcomes = outcomes.map(|path| OutcomesFile::create(path, arguments.force)).transpose()?;
    let mut replay = Replay::new(policies, log.units(), max_wait).map_err(failure)?;
    if let Some(outcomes) = &mut outcomes {
        replay = replay.observed_by(|outcome| outcomes.write(&outcome));
    }
    let simulation = Simulation::run(replay, arguments, &log, size, context)?;
    if let Some(outcomes) = outcomes {
        outcomes.finish()?;
    }
    simulation.report(arguments, chart.as_ref(), context)
}

/// The fields from the arguments. Checks that a policy counts each unit.
fn fields(arguments: &Arguments, policies: &[TrialPolicy]) -> Result<Fields, Failure> {
    for (index, cost) in arguments.cost.iter().enumerate() {
        if arguments.cost[..index].iter().any(|other| other.unit == cost.unit) {
            return Err(Failure::usage(format!("--cost gives {} twice", cost.unit)));
        }
        let known = policies.iter().map(|trial| trial.policy.cost([(cost.unit.as_str(), 0)]));
        if let Some(Err(error)) = known.reduce(Result::or) {
            return Err(Failure::usage(error));
        }
    }
    let mut units: Vec<String> = Vec::new();
    for unit in policies.iter().flat_map(|trial| trial.policy.units()) {
        if !units.iter().any(|known| known == unit.as_str()) {
            units.push(unit.to_string());
        }
    }
    let (time, subject, costs) = (arguments.time.clone(), arguments.subject.clone(), arguments.cost.clone());
    Ok(Fields { time, subject, costs, units })
}

/// Prints assumptions about subject and costs.
fn print_assumptions(arguments: &Arguments, log: &Log, policies: &[TrialPolicy], context: &Context) {
    if log.subject().is_none() && arguments.subject.is_none() {
        context
            .output()
            .note("no subject field found, so all calls share one subject; set it with --subject FIELD");
    }
    let counts_nothing = |unit: &&str| *unit != REQUESTS && !log.units().iter().any(|known| known == unit);
    let mut units: Vec<&str> =
        policies.iter().flat_map(|trial| trial.policy.units()).map(|unit| unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    for unit in units.into_iter().filter(counts_nothing) {
        context.output().warning(format_args!(
            "calls cost no {unit}: the log has no such field; set it with --cost {unit}=FIELD"
        ));
    }
}
