//! `tollway simulate`: a traffic log replayed under a policy.
//!
//! `policies` makes the policies on trial, `simulation` opens the log and runs the replay of the library
//! `tollway-simulate`, `text`, `json` and `chart` write the summary. No store is opened that other commands use.

mod chart;
mod json;
mod policies;
mod simulation;
mod text;

use std::path::PathBuf;

use clap::ValueEnum;
use tollway::core::{REQUESTS, read_span};
use tollway::{Limit, Span};
use tollway_simulate::{CostSource, Fields, Log, LogFormat, Replay, TrialPolicy};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use simulation::{ChartFile, Simulation};

const EXAMPLES: &str = "\
Examples:
  tollway simulate access.log --policy api
  tollway simulate calls.jsonl --limit \"200 requests / minute\" --what-if \"250 requests / minute\"
  tollway simulate calls.csv --policy gemini --subject - --cost tokens=total_tokens --max-wait 30s
  zcat access.log.gz | tollway simulate - --policy api --svg chart.svg

A what-if takes the place of the policy's limit of the same name, which is its unit and period unless it \
has one of its own. If the policy has none of that name, the what-if is the whole policy.

Times are RFC 3339 or seconds, milliseconds, microseconds or nanoseconds since 1970.";

/// What a policy would have done to the calls in a log
///
/// Each line of the log is a take at its own time, decided by the same engine that decides in production. Nothing is
/// counted in the store. The log is JSON lines, CSV with a line of names, or an access log; what its fields are is
/// found out from the first lines unless you say it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The log; - is standard input
    #[arg(value_name = "LOG")]
    log: String,
    /// The policy of the config to try; this, or --limit
    #[arg(long, value_name = "NAME", required_unless_present = "limit", conflicts_with = "limit")]
    policy: Option<String>,
    /// A limit to try without a config, as in "200 requests / minute"; may be repeated
    #[arg(long, value_name = "TEXT")]
    limit: Vec<String>,
    /// The same with this limit instead, side by side; may be repeated
    #[arg(long, value_name = "TEXT", value_parser = |text: &str| text.parse::<Limit>())]
    what_if: Vec<Limit>,
    /// Let calls wait so long for their turn, as in 30s [default: they do not wait]
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    max_wait: Option<Span>,
    /// The format of the log [default: told from its first lines]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatArgument>,
    /// The field of the time
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,
    /// The field of the subject; - if all calls share one
    #[arg(long, value_name = "FIELD", allow_hyphen_values = true)]
    subject: Option<String>,
    /// What a call takes of a unit: a field, or a number; may be repeated [default: fields named as units are]
    #[arg(long, value_name = "UNIT=FIELD")]
    cost: Vec<CostSource>,
    /// Fail if more lines than this cannot be read [default: warn]
    #[arg(long, value_name = "LINES")]
    max_bad: Option<u64>,
    /// Draw a chart into this file, which must not exist yet
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Let --svg overwrite a file that exists
    #[arg(long, requires = "svg")]
    force: bool,
}

/// The formats, as `--help` explains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArgument {
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values under a line of names
    Csv,
    /// The common or combined access log of web servers
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
    let policies = policies::on_trial(arguments, context)?;
    let fields = fields(arguments, &policies)?;
    // Before the replay, which may take long.
    let chart = arguments.svg.as_deref().map(|path| ChartFile::new(path, arguments.force)).transpose()?;
    let failure = |error| simulation::failure(error, &arguments.log);
    let (input, size) = simulation::open(&arguments.log).map_err(|error| failure(error.into()))?;
    let log = Log::read(input, arguments.format.map(Into::into), fields).map_err(failure)?;
    say_what_was_assumed(arguments, &log, &policies, context);
    let max_wait = arguments.max_wait.unwrap_or(Span::ZERO);
    let replay = Replay::new(policies, log.units(), max_wait).map_err(failure)?;
    Simulation::run(replay, arguments, &log, size, context)?.report(arguments, chart.as_ref(), context)
}

/// The fields that the arguments name, after a check that a policy counts each unit.
fn fields(arguments: &Arguments, policies: &[TrialPolicy]) -> Result<Fields, Failure> {
    for (index, cost) in arguments.cost.iter().enumerate() {
        if arguments.cost[..index].iter().any(|other| other.unit == cost.unit) {
            return Err(Failure::usage(format!("--cost says twice what a call takes of {}", cost.unit)));
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

/// What the answer depends on and the arguments leave open.
fn say_what_was_assumed(arguments: &Arguments, log: &Log, policies: &[TrialPolicy], context: &Context) {
    if log.subject().is_none() && arguments.subject.is_none() {
        context
            .output()
            .note("no field is known as a subject, so all calls share one; --subject FIELD names one");
    }
    let counts_nothing = |unit: &&str| *unit != REQUESTS && !log.units().iter().any(|known| known == unit);
    let mut units: Vec<&str> =
        policies.iter().flat_map(|trial| trial.policy.units()).map(|unit| unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    for unit in units.into_iter().filter(counts_nothing) {
        context.output().warning(format_args!(
            "calls take no {unit}: the log has no such field; --cost {unit}=FIELD names one"
        ));
    }
}
