//! All of it: makes chunks, enqueues them, runs the pipeline, and shows how far it is.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::signal::ctrl_c;
use tokio::time::{MissedTickBehavior, interval};
use tollway::{Limiter, Span, Timestamp};
use tollway_pipeline::bounds::BATCH_MAX;
use tollway_pipeline::documents::AutotagMessage;
use tollway_pipeline::run::Runner;
use tollway_pipeline::{ConfigWithPipelines, Engine, EngineOpener, NewJob, OpenedEngine, PipelineConfig};

use crate::adobe::Adobe;
use crate::arguments::{Arguments, LIMIT};
use crate::files::Files;
use crate::report::Report;
use crate::vendor::{VendorApi, VendorSettings};
use crate::workers::Workers;
use crate::{BoxError, chunks, say};

/// What the command `tollway` runs, too.
const CONFIG: &str = include_str!("../tollway.toml");
/// The one line that says where jobs are.
const ENGINE: &str = "engine = \"sqlite:pdf.db\"";
const WORKER: &str = include_str!("../worker.py");

/// How long jobs may take after Ctrl-C.
const GRACE: Span = Span::from_secs(10);

pub(crate) async fn run(arguments: &Arguments) -> Result<(), BoxError> {
    let place = Place::new(arguments)?;
    let (limit, log) = (arguments.vendor_limit(), place.folder.join("vendor.jsonl"));
    let settings =
        VendorSettings { listen: arguments.listen, limit: &limit, latency: arguments.latency(), log: &log };
    let vendor = VendorApi::start(settings).await?;
    let config_path = place.write(&vendor.url(), arguments)?;
    let files = Files::open(&place.files)?;

    let config = ConfigWithPipelines::load(&config_path)?;
    let pipeline = config.pipeline("pdf").ok_or("the config has no pipeline pdf")?;
    let limiter = Limiter::builder().config(config.limits())?.build();
    let opener = EngineOpener::default();
    #[cfg(feature = "sqs")]
    let opener = opener.with_sqs(tollway_sqs::open);
    let opened = opener.open_to_run(&pipeline.engine).await?;
    let now = limiter.clock().now();
    let pdfs = chunks::make(&files, arguments.pdfs, now).await?;
    enqueue(&*opened.engine, pipeline, &pdfs, now).await?;
    let chunks = pdfs.iter().map(Vec::len).sum();
    say(format_args!(
        "{chunks} chunks of {} PDFs; a minute lasts {} and has {LIMIT} requests; workers in {}",
        pdfs.len(),
        arguments.minute,
        if arguments.rust { "Rust" } else { "Python" },
    ))?;
    say(format_args!("watch it: tollway pipeline status --config {}\n", config_path.display()))?;

    let workers =
        Workers { files: files.clone(), adobe: Adobe::new(&vendor.url())?, clock: limiter.clock().clone() };
    let runner = start(&opened, &limiter, pipeline, &workers, arguments.rust).await?;
    let finished = watch(&runner, arguments.minute).await?;
    let progress = runner.progress().await?;
    runner.drain(GRACE).await?;
    if !finished {
        return Ok(say("stopped; with --folder, another run goes on from here")?);
    }
    let report = Report { progress, chunks, pdfs: pdfs.len(), log: &log, files: &files, arguments };
    report.print().await
}

/// The folder of a run, with all that it needs and leaves.
struct Place {
    folder: PathBuf,
    files: String,
    /// Removed at the end.
    _temporary: Option<TempDir>,
}

impl Place {
    fn new(arguments: &Arguments) -> Result<Self, BoxError> {
        let (folder, temporary) = match &arguments.folder {
            Some(folder) => (std::path::absolute(folder)?, None),
            None => {
                let temporary = tempfile::Builder::new().prefix("adobe-pdf-").tempdir()?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        std::fs::create_dir_all(&folder)?;
        let files = match &arguments.files {
            Some(url) if url.contains("://") => url.clone(),
            Some(files) => readable(&std::path::absolute(files)?)?,
            None => readable(&folder.join("files"))?,
        };
        Ok(Self { folder, files, _temporary: temporary })
    }

    /// Writes the config for this run, and the worker beside it.
    fn write(&self, vendor_url: &str, arguments: &Arguments) -> Result<PathBuf, BoxError> {
        let path = self.folder.join("tollway.toml");
        let minute = format!("{LIMIT} requests / {}", arguments.minute);
        let engine =
            arguments.engine.as_ref().map_or_else(|| ENGINE.to_owned(), |url| format!("engine = {url:?}"));
        let config = CONFIG
            .replace(ENGINE, &engine)
            .replace("200 requests / minute", &minute)
            .replace("http://127.0.0.1:8787", vendor_url)
            .replace("\"--files\", \"files\"", &format!("\"--files\", {:?}", self.files));
        std::fs::write(&path, config)?;
        std::fs::write(self.folder.join("worker.py"), WORKER)?;
        Ok(path)
    }
}

fn readable(path: &Path) -> Result<String, BoxError> {
    Ok(path.to_str().ok_or("the folder's name is not UTF-8")?.to_owned())
}

/// Enqueues every PDF with all its chunks at once: a PDF half of which is enqueued could be finished without the rest.
async fn enqueue(
    engine: &dyn Engine,
    pipeline: &PipelineConfig,
    pdfs: &[Vec<AutotagMessage>],
    now: Timestamp,
) -> Result<(), BoxError> {
    let first = &pipeline.stages.first().ok_or("the pipeline has no stages")?.name;
    let mut batch = Vec::new();
    for messages in pdfs {
        if batch.len() + messages.len() > BATCH_MAX {
            engine.enqueue(std::mem::take(&mut batch), now).await?;
        }
        for message in messages {
            let job = NewJob::new(first, &message.chunk_key, &serde_json::to_string(message)?)?;
            batch.push(job.group(&message.job_id)?);
        }
    }
    engine.enqueue(batch, now).await?;
    Ok(())
}

/// Starts the pipeline. A stage without a handler in the config gets the Rust worker, or every stage does.
async fn start(
    opened: &OpenedEngine,
    limiter: &Limiter,
    pipeline: &PipelineConfig,
    workers: &Workers,
    rust: bool,
) -> Result<Runner, BoxError> {
    let mut builder = Runner::builder(opened.engine.clone(), limiter.clone()).pipeline(pipeline);
    if opened.sole_owner {
        builder = builder.sole_owner();
    }
    for stage in pipeline.stages.iter().filter(|stage| rust || stage.handler.is_none()) {
        let name = stage.name.as_str();
        let handler = workers.handler(name).ok_or_else(|| format!("no worker for stage {name}"))?;
        builder = builder.handler_that_begins(name, handler);
    }
    Ok(builder.start().await?)
}

/// Shows progress every minute, until all is done; false if it was stopped.
async fn watch(runner: &Runner, minute: Span) -> Result<bool, BoxError> {
    let mut minutes = interval(minute.into());
    minutes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    minutes.tick().await;
    let finished = runner.finished();
    tokio::pin!(finished);
    loop {
        tokio::select! {
            done = &mut finished => return done.map(|()| true).map_err(Into::into),
            _ = ctrl_c() => return Ok(false),
            _ = minutes.tick() => {
                let progress = runner.progress().await?;
                let stages = progress.stages.iter().map(|stage| {
                    format!("{} {:>4} done {:>3} running", stage.stage.as_str(), stage.done, stage.running)
                });
                say(stages.collect::<Vec<_>>().join("   "))?;
            }
        }
    }
}
