//! `tollway doctor`: finds problems that keep limits from being enforced, with cause and fix. Read-only.
//!
//! One file per check: `consumers` (switch, callers and records), `store` (reachability, clock, writes and expiry), `redis`
//! (keys and memory), `aws` (queues, ledger, parameters and topic), `pipelines` (jobs that no worker claims), `listeners` (what other machines reach), `readable_files` (what
//! other users read), `compare` (another config), `server` (a running server, over `http`). `finding` is the result of a
//! check, `store_url` handles credentials in URLs.

#[cfg(feature = "aws")]
mod aws;
mod compare;
mod consumers;
mod finding;
mod http;
mod listeners;
#[cfg(feature = "pipeline")]
mod pipelines;
mod readable_files;
#[cfg(feature = "redis")]
mod redis;
mod server;
mod store;
mod store_url;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollway::StoreUrl;
use tollway_config::ConfigFile;
use tollway_consumers::ConsumerId;
use tollway_memory::{FileStore, WallClock};
#[cfg(feature = "pipeline")]
use tollway_pipeline::{EngineUrl, SqliteEngine};

use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use crate::humanize::counted;
use crate::log;
use finding::{Finding, Findings};
use store_url::FullStoreUrl;

const EXAMPLES: &str = "\
Examples:
  tollway doctor                                    check the local config and its store
  tollway doctor --consumer abc123                  why is this consumer not limited?
  tollway doctor --compare /srv/other/tollway.toml  do both use the same store?
  tollway doctor --server http://127.0.0.1:9090     does this server use the config's store?
  tollway doctor --json | jq '.findings[].fix'

Exit codes:
  0    no problems; notes do not count
  1    problems found, including an invalid config or an unreachable store
  2    invalid arguments

The page docs/guide/doctor.md explains each finding by its code in brackets.";

/// Find problems that keep limits from being enforced
///
/// Checks whether consumers are limited, and by which records; whether the store answers, its clock and its expiry; Redis
/// for counters without TTL or count and for full memory; unused policies; and whether other processes use the same store. Changes
/// nothing. Each finding names the problem, why it matters and the fix.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A consumer that should be limited
    #[arg(long, value_name = "ID")]
    consumer: Option<ConsumerId>,
    /// The config of another process that should use the same store
    #[arg(long, value_name = "CONFIG")]
    compare: Option<PathBuf>,
    /// The administration address of a running server that should use this config's store
    #[arg(long, value_name = "URL")]
    server: Option<http::Server>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    if let Some(config) = config(context, &mut findings) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            Failure::new(Exit::FAILED, format!("cannot start the async runtime: {error}"))
        })?;
        runtime.block_on(look(arguments, context, &config, &mut findings));
        // The findings say what failed.
        drop(log::take_held(None));
    }
    finding::write(&findings, context.output())?;
    Ok(if findings.problems() == 0 { Exit::DONE } else { Exit::FAILED })
}

/// Loads the config, or adds a finding.
fn config(context: &Context, findings: &mut Findings) -> Option<WholeConfig> {
    let loaded = context.config_path().and_then(|path| Ok((ConfigFile::<WholeConfig>::load(&path)?, path)));
    match loaded {
        Ok((file, path)) => {
            let included = match file.paths().count().saturating_sub(1) {
                0 => String::new(),
                more => format!(" and {} that it includes", counted(more as u64, "files")),
            };
            findings.checked(format!("config {}{included}", path.display()));
            Some(file.into_config())
        }
        Err(failure) => {
            let why = "without a valid config, a process does not start, or keeps its previous limits";
            let fix = failure.advice().unwrap_or("fix the error, then run `tollway policy check`");
            findings.add(Finding::problem("config-wrong", failure.message(), why, fix));
            None
        }
    }
}

async fn look(arguments: &Arguments, context: &Context, config: &WholeConfig, findings: &mut Findings) {
    let now = context.now();
    let store = context.named_store().or(config.limits().store());
    let written = &FullStoreUrl::of(store);
    consumers::look_at(config, written, arguments.consumer.as_ref(), findings);
    if let Some(consumers) = config.consumers() {
        consumers::look_at_records(consumers, arguments.consumer.as_ref(), now, findings).await;
    }
    match store {
        Some(StoreUrl::Memory { .. }) => findings.add(store::in_memory()),
        Some(StoreUrl::File(path)) => look_at_file(path, context, findings),
        Some(remote) => {
            if store::look_at(remote, written, context, findings).await {
                look_into(config, remote, written, findings).await;
            }
        }
        None => match context.store(config.limits()) {
            Ok(StoreUrl::File(path)) => look_at_file(&path, context, findings),
            _ => findings.add(store::in_memory()),
        },
    }
    #[cfg(feature = "aws")]
    let has_ledger = aws::look_at(config, store, findings).await;
    #[cfg(not(feature = "aws"))]
    let has_ledger = true;
    #[cfg(feature = "pipeline")]
    {
        look_at_clocks_of_jobs(config, context, findings);
        pipelines::look_at(config, has_ledger, findings).await;
    }
    #[cfg(not(feature = "pipeline"))]
    let _ = has_ledger;
    let counts_in = store.cloned().or_else(|| context.store(config.limits()).ok());
    readable_files::look_at(config, counts_in.as_ref(), findings);
    if let Some(server) = config.server() {
        listeners::look_at(server, findings);
    }
    if let Some(other) = &arguments.compare {
        compare::look_at(config, store, written, other, findings).await;
    }
    if let Some(server) = &arguments.server {
        // Without [store], commands count in a file, and a server in memory.
        let ours = store.cloned().or_else(|| context.store(config.limits()).ok()).unwrap_or_default();
        server::look_at(config, &ours, written, server, findings).await;
    }
}

fn look_at_file(path: &Path, context: &Context, findings: &mut Findings) {
    store::look_at_file(path, findings);
    // What else is wrong with the file, the next command says.
    let time = FileStore::time_in(path, Arc::new(WallClock)).ok().flatten();
    store::look_at_clock(&format!("file:{}", path.display()), time, context, findings);
}

#[cfg(feature = "pipeline")]
fn look_at_clocks_of_jobs(config: &WholeConfig, context: &Context, findings: &mut Findings) {
    for pipeline in config.pipelines() {
        if let EngineUrl::Sqlite(path) = &pipeline.engine {
            let time = SqliteEngine::time_in(path, Arc::new(WallClock)).ok().flatten();
            store::look_at_clock(&format!("the jobs of {}", path.display()), time, context, findings);
        }
    }
}

/// Checks for one kind of store.
#[cfg_attr(
    not(all(feature = "redis", feature = "aws")),
    allow(unused_variables, reason = "each kind is a feature")
)]
async fn look_into(config: &WholeConfig, store: &StoreUrl, written: &FullStoreUrl, findings: &mut Findings) {
    #[cfg(feature = "redis")]
    if let Some(url) = written.redis() {
        redis::look_at(config, url, findings).await;
    }
    #[cfg(feature = "aws")]
    store::look_at_table(store, findings).await;
}
