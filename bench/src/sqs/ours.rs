//! Tollway's pipeline on SQS, as a config file sets it up.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use tollway::Span;
use tollway::core::Name;
use tollway_pipeline::handler::{Answer, Task, handler_fn};
use tollway_pipeline::run::Runner;
use tollway_pipeline::{ConfigWithPipelines, Engine, EngineOpener, NewJob, PipelineConfig};

use super::WORKERS;
use super::round::Contender;
use super::vendor::{POLICY, Vendor};

const PIPELINE: &str = "bench";
const FIRST: &str = "first";
const SECOND: &str = "second";

/// How long jobs that run may take after the last one is done.
const DRAINED_WITHIN: Span = Span::from_secs(10);

pub(super) struct Ours {
    engine: Arc<dyn Engine>,
    config: PipelineConfig,
    vendor: Vendor,
}

impl Contender for Ours {
    const QUEUES: [&str; 2] = ["bench-first", "bench-second"];

    async fn prepare(endpoint: &str, vendor: &Vendor, jobs: u64) -> Result<Self> {
        let config = ConfigWithPipelines::parse(&config(endpoint))?;
        let config = config.pipeline(PIPELINE).context("the config has it")?.clone();
        let opener = EngineOpener::default().with_sqs(tollway_sqs::open);
        let engine = opener.open_to_run(&config.engine).await?.engine;
        let first = Name::new(FIRST)?;
        let job = |number: u64| NewJob::new(&first, &format!("job-{number}"), &number.to_string());
        let backlog = (0..jobs).map(job).collect::<Result<_, _>>()?;
        engine.enqueue(backlog, vendor.limiter.clock().now()).await?;
        Ok(Self { engine, config, vendor: vendor.clone() })
    }

    async fn work(self) -> Result<()> {
        let (first, second) = (self.vendor.clone(), self.vendor.clone());
        let runner = Runner::builder(self.engine, self.vendor.limiter)
            .pipeline(&self.config)
            .handler(FIRST, handler_fn(move |task: Task| answer(first.clone(), task, true)))
            .handler(SECOND, handler_fn(move |task: Task| answer(second.clone(), task, false)))
            .start()
            .await?;
        runner.finished().await?;
        let drained = runner.drain(DRAINED_WITHIN).await?;
        ensure!(drained.given_back == 0, "{} jobs did not end", drained.given_back);
        Ok(())
    }
}

async fn answer(vendor: Vendor, task: Task, hands_on: bool) -> Answer {
    match vendor.call(&task.job.data).await {
        Ok(()) if hands_on => Answer::hands_on([task.job.data]),
        Ok(()) => Answer::done(),
        Err(error) => Answer::dead(error.to_string()),
    }
}

/// The limits of the policy here are not used: the vendor brings the limiter.
fn config(endpoint: &str) -> String {
    let stage = |name: &str| {
        format!(
            "[[pipelines.{PIPELINE}.stages]]\nname = {name:?}\nconcurrency = {WORKERS}\n\
             take = {{ {POLICY} = {{ requests = 1 }} }}\n"
        )
    };
    let engine = format!("sqs:?ledger={PIPELINE}&endpoint={endpoint}&access=test:test&create=yes");
    format!(
        "[policies.{POLICY}]\nlimits = [\"1 request / second\"]\n[pipelines.{PIPELINE}]\nengine = {engine:?}\n{}{}",
        stage(FIRST),
        stage(SECOND)
    )
}
