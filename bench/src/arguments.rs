//! The command line arguments.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use crate::server::Served;

/// Measures Tollway and its rivals in one run on the same work.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to measure.
    #[arg(required_unless_present_any = ["count_case", "serve", "answer_jobs"])]
    pub(crate) group: Option<Group>,

    /// Finish within 45 seconds: fewer and shorter rounds, rougher figures. The full run takes up to seven minutes.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print one JSON object per row instead of a table. Notes go to stderr.
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with code 3 if a figure misses its target. Figures depend on the machine and its load.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Also write the table into this file, between its lines `<!-- GROUP begin -->` and `<!-- GROUP end -->`.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Run only the takes of one case, for an external counter.
    #[arg(long, hide = true, num_args = 2, value_names = ["NAME", "TAKES"])]
    count_case: Option<Vec<String>>,

    /// Only serve until killed, for an external measurement.
    #[arg(long, hide = true, value_name = "WHO")]
    pub(crate) serve: Option<Served>,

    /// Only answer jobs on standard input, as the handler of a pipeline.
    #[arg(long, hide = true)]
    pub(crate) answer_jobs: bool,
}

const AFTER_HELP: &str = "\
Examples:
  cargo run --profile dist -p tollway-bench -- engine --quick
  cargo run --profile dist -p tollway-bench -- engine --json > rows.jsonl
  cargo run --profile dist -p tollway-bench -- redis --markdown docs/benchmarks.md

A row has the figure of ours, that of the rival, and `ratio`, which is ours / theirs; `better` says whether lower or
higher is better. Where a figure is held to something, `wanted` says what and `met` whether it is. Progress goes to stderr. A process that needs a core meanwhile makes the figures worse than they are:
leave the machine alone. Instructions and allocations are counted by valgrind, and left out if it is not installed.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    /// The decision in process: time, instructions and allocations of a take, and waiting for one.
    Engine,
    /// What a take costs as policies, subjects, limits and policies of one take grow, and with which curve.
    Growth,
    /// Limits shared through Redis: decisions a second, processor time, commands and latency. Starts a redis-server.
    Redis,
    /// Limits shared through Postgres, the same. Starts a postgres.
    Postgres,
    /// The server's protocols: requests a second, processor time of the server, latency. Starts rivals' servers; needs wrk,
    /// h2load and redis-benchmark.
    Server,
    /// Calls to vendors with limits of their own. Not supported in this version.
    Outbound,
    /// Jobs through the pipeline: jobs a second beside other queues, and a backlog of a million jobs. Starts a postgres; needs
    /// the programs `tollway` and `queue-rivals`.
    Pipeline,
    /// Limits shared through DynamoDB: decisions a second, latency, writes and failed conditions. Pipelines on SQS: requests
    /// for a job. Starts emulators, one of them installed by scripts/install-python-tools.
    Aws,
}

impl Group {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no group is hidden").get_name().to_owned()
    }
}

impl Arguments {
    pub(crate) fn count_case(&self) -> Result<Option<(String, usize)>> {
        let Some([name, takes]) = self.count_case.as_deref() else { return Ok(None) };
        Ok(Some((name.clone(), takes.parse().context("the number of takes")?)))
    }
}
