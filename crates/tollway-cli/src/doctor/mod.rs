//! `tollway doctor`: finds what keeps limits from being enforced, with its cause and its fix. It changes nothing.
//!
//! One file for each thing that it looks at: `consumers` the switch, the callers and their records, `store` whether it
//! answers, by which clock, and whether it can write and forget, `redis` its keys and its memory, `compare` another config,
//! `server` a running server, by `http`. `finding` is what it reports, `place` where a store is.

mod compare;
mod consumers;
mod finding;
mod http;
mod place;
#[cfg(feature = "redis")]
mod redis;
mod server;
mod store;

use std::path::PathBuf;

use tollway::StoreUrl;
use tollway_consumers::ConsumerId;

use crate::context::{Context, WholeConfig};
use crate::failure::{Exit, Failure};
use finding::{Finding, Findings};
use place::Written;

const EXAMPLES: &str = "\
Examples:
  tollway doctor                                    the config here and its store
  tollway doctor --consumer abc123                  why is this consumer not limited?
  tollway doctor --compare /srv/other/tollway.toml  do both count in one store?
  tollway doctor --server http://127.0.0.1:9090     does that server count where this config says?
  tollway doctor --json | jq '.findings[].fix'

Exit codes:
  0    nothing was found; notes do not count
  1    something was found, also if it is that the config is wrong or the store away
  2    wrong arguments

The page docs/guide/doctor.md explains each finding by the word in brackets.";

/// Find what keeps limits from being enforced, and say how to mend it
///
/// Looks whether consumers are limited at all, by which records and in which store; whether the store answers, by which
/// clock, and whether it can forget; of Redis, for counters that never end and for memory that runs out; for policies that
/// nobody uses; and whether other processes count in the same store. Nothing is changed. Each finding says what it is, why
/// it matters and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A consumer that should be limited
    #[arg(long, value_name = "ID")]
    consumer: Option<ConsumerId>,
    /// The config of another process that should count in the same store
    #[arg(long, value_name = "CONFIG")]
    compare: Option<PathBuf>,
    /// The administration of a running server that should count in the store of this config
    #[arg(long, value_name = "URL")]
    server: Option<http::Server>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    if let Some(config) = config(context, &mut findings) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Exit::FAILED, format!("no runtime: {error}")))?;
        runtime.block_on(look(arguments, context, &config, &mut findings));
    }
    finding::write(&findings, context.output())?;
    Ok(if findings.problems() == 0 { Exit::DONE } else { Exit::FAILED })
}

/// The config, or what is wrong with it.
fn config(context: &Context, findings: &mut Findings) -> Option<WholeConfig> {
    let loaded = context.config_path().and_then(|path| {
        let config = WholeConfig::load(&path)?;
        Ok((path, config))
    });
    match loaded {
        Ok((path, config)) => {
            findings.looked_at(format!("config {}", path.display()));
            Some(config)
        }
        Err(failure) => {
            let why = "without its config, a process refuses to start or keeps to limits that it read before";
            let fix = failure.advice().unwrap_or("mend what is said there, then ask `tollway policy check`");
            findings.add(Finding::problem("config-wrong", failure.message(), why, fix));
            None
        }
    }
}

async fn look(arguments: &Arguments, context: &Context, config: &WholeConfig, findings: &mut Findings) {
    let now = context.now();
    let store = context.named_store().or(config.limits().store());
    let written = &Written::of(store);
    consumers::look_at(config, written, arguments.consumer.as_ref(), findings);
    if let Some(consumers) = config.consumers() {
        consumers::look_at_records(consumers, arguments.consumer.as_ref(), now, findings).await;
    }
    match store {
        Some(StoreUrl::Memory { .. }) => findings.add(store::in_memory()),
        Some(StoreUrl::File(path)) => store::look_at_file(path, findings),
        Some(remote) => {
            if store::look_at(remote, context, findings).await {
                look_into(config, remote, written, findings).await;
            }
        }
        None => match context.store(config.limits()) {
            Ok(StoreUrl::File(path)) => store::look_at_file(&path, findings),
            _ => findings.add(store::in_memory()),
        },
    }
    if let Some(other) = &arguments.compare {
        compare::look_at(config, store, written, other, findings).await;
    }
    if let Some(server) = &arguments.server {
        server::look_at(config, store, written, server, findings).await;
    }
}

/// What only one kind of store can tell.
#[cfg_attr(
    not(all(feature = "redis", feature = "aws")),
    allow(unused_variables, reason = "each kind is a feature")
)]
async fn look_into(config: &WholeConfig, store: &StoreUrl, written: &Written, findings: &mut Findings) {
    #[cfg(feature = "redis")]
    if let Some(url) = written.redis() {
        redis::look_at(config, url, findings).await;
    }
    #[cfg(feature = "aws")]
    store::look_at_table(store, findings).await;
}
