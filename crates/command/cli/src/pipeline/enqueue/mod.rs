//! `pipeline enqueue`: jobs from files or standard input.
//!
//! `input` opens and measures files, `batches` sends jobs in batches, `report` says what became of them.

mod batches;
mod input;
mod report;

use std::path::PathBuf;

use clap::ValueEnum;
use tollway::core::read_span;
use tollway::{Span, Timestamp};
use tollway_pipeline::source::{Format, Records, Source};
use tollway_pipeline::view::stage_of;

use super::session::{Session, Which};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::stopwatch::Stopwatch;
use batches::Batches;
use input::Input;
use report::EnqueueReport;

const EXAMPLES: &str = "\
Examples:
  tollway pipeline enqueue chunks.jsonl            one JSON object a line
  tollway pipeline enqueue users.csv --key email   a row is an object; `email` makes it unique
  aws s3api list-objects-v2 --bucket pdfs | jq -c .Contents[] | tollway pipeline enqueue -
  tollway pipeline enqueue events.jsonl --dry-run  only check
  tollway pipeline enqueue dead.jsonl --again      dead letters that were exported, dropped and corrected

A record may also be an S3 notification, an EventBridge event, a message of SQS or SNS, or a list of records: see
docs/guide/pipeline.md. A job's key is its field `key` or `chunk_key`, or what --key or the config names. A key that its
stage has already is left alone, so the command can be repeated after any failure. That also holds for a key whose job was
dropped or cancelled; --again makes a new job of it.

Exits with 0, or with 65 if there were bad lines, or keys of dropped jobs without --again; the others are enqueued all the
same.";

/// Add jobs from JSONL, CSV or standard input
///
/// Works while the pipeline runs. Jobs are on disk before they are counted here.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The files; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
    /// How records are separated [default: csv for *.csv and *.tsv, else jsonl]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatArgument>,
    /// The stage that jobs enter [default: the config's, else the first]
    #[arg(long, value_name = "NAME", add = crate::complete_names::stages())]
    stage: Option<String>,
    /// The field that makes a job unique; repeatable [default: the config's, else key or chunk_key]
    #[arg(long, value_name = "FIELD")]
    key: Vec<String>,
    /// The field that names a job's group [default: the config's, else job_id]
    #[arg(long, value_name = "FIELD")]
    group: Option<String>,
    /// The priority of these jobs: higher is claimed first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,
    /// Do not start these jobs before this time has passed, e.g. 2h
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    delay: Option<Span>,
    /// Make new jobs of keys whose jobs were dropped or cancelled
    #[arg(long)]
    again: bool,
    /// Read and check everything, and enqueue nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArgument {
    Jsonl,
    Csv,
}

pub(super) fn run(arguments: &Arguments, which: &Which, context: &Context) -> Result<Exit, Failure> {
    let (config, _) = which.config(context)?;
    let session = if arguments.dry_run { None } else { Some(Session::open(which, context, true)?) };
    let source = arguments.source(&config.source, &config)?;
    let stopwatch = Stopwatch::start();
    let mut report = EnqueueReport::new(&source.stage);
    // Every file is found before the first is read.
    let inputs: Vec<Input> =
        arguments.files.iter().map(|path| Input::open(path)).collect::<Result<_, _>>()?;
    let bar = input::progress_bar(&inputs, context.output());
    for input in inputs {
        let now = session.as_ref().map_or_else(|| context.now(), Session::now);
        let mut batches = Batches::new(session.as_ref());
        read(arguments, source.clone(), input, &mut batches, &mut report, &bar, now)?;
        batches.finish(&mut report)?;
    }
    bar.finish_and_clear();
    report.print(arguments.dry_run, stopwatch.elapsed(), context.output())
}

/// Reads one input, record by record.
fn read(
    arguments: &Arguments,
    source: Source,
    input: Input,
    batches: &mut Batches<'_>,
    report: &mut EnqueueReport,
    bar: &indicatif::ProgressBar,
    now: Timestamp,
) -> Result<(), Failure> {
    let format = arguments.format(&input);
    let name = input.name.clone();
    let mut records = Records::new(source, input.reader(bar), format);
    loop {
        let next = records.next_record(now);
        let next = next.map_err(|error| Failure::new(Exit::DATA, format!("{name}: {error}")))?;
        let Some((line, read)) = next else { return Ok(()) };
        report.skipped.add(read.skipped);
        for error in &read.errors {
            report.bad_line(&name, line, error, bar);
        }
        for job in read.jobs {
            batches.add(arguments.adjust(job, now), report)?;
        }
    }
}

impl Arguments {
    /// The config's source, with what the command line says.
    fn source(
        &self,
        configured: &Source,
        config: &tollway_pipeline::PipelineConfig,
    ) -> Result<Source, Failure> {
        let mut source = configured.clone();
        if let Some(stage) = &self.stage {
            source.stage = stage_of(config, stage)?;
        }
        if !self.key.is_empty() {
            source.key.clone_from(&self.key);
        }
        source.group = self.group.clone().or(source.group);
        Ok(source)
    }

    fn format(&self, input: &Input) -> Format {
        match self.format {
            Some(FormatArgument::Jsonl) => Format::Jsonl,
            Some(FormatArgument::Csv) => Format::Csv,
            None if input.is_table() => Format::Csv,
            None => Format::Jsonl,
        }
    }

    fn adjust(&self, job: tollway_pipeline::NewJob, now: Timestamp) -> tollway_pipeline::NewJob {
        let job = if self.again { job.again() } else { job };
        let job = match self.priority {
            Some(priority) => job.priority(priority),
            None => job,
        };
        match self.delay {
            Some(delay) => job.not_before(now.plus(delay)),
            None => job,
        }
    }
}
