//! A backlog of a million jobs: how long the command takes to enqueue them and to show its status, the memory of `run`, and
//! the speed beside that with few jobs waiting.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tollway::Limiter;
use tollway::core::Span;
use tollway_pipeline::{Engine, SqliteEngine};

use super::contest::Effort;
use super::ours::{FIRST, SECOND, enqueue, start};
use super::programs::Programs;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;
use crate::stopwatch::Lap;

const JOBS: u64 = 1_000_000;
const JOBS_QUICK: u64 = 50_000;

/// What the speed is compared with.
const FEW_JOBS: u64 = 1_000;

const WORKERS: u32 = 128;

/// As many jobs are enqueued whenever as many are finished, so that the backlog stays.
const REFILL: u64 = 250;

/// How often to look whether it is time to.
const PAUSE: Duration = Duration::from_millis(2);

/// The targets, of a million jobs.
const WANTED_ENQUEUE_SECONDS: f64 = 60.0;
const WANTED_STATUS_MS: f64 = 100.0;
const WANTED_MEMORY_MB: f64 = 200.0;
const WANTED_SPEED: f64 = 0.8;

/// Calls of `status`, of which the median counts.
const STATUS_CALLS: usize = 9;

/// The files of the command.
struct Site<'p> {
    programs: &'p Programs,
    folder: tempfile::TempDir,
}

pub(super) fn measure(
    programs: &Programs,
    quick: bool,
    effort: Effort,
    report: &mut BenchReport,
) -> Result<()> {
    let (jobs, number) = if quick { (JOBS_QUICK, "50,000") } else { (JOBS, "1,000,000") };
    let waiting = format!("{number} jobs waiting");
    let site = Site { programs, folder: tempfile::Builder::new().prefix("tollway-bench-").tempdir()? };
    site.write_files(jobs)?;
    let mut alone = |case: &str, unit, figure, wanted: f64| {
        let row = Row::new(case, "none", unit, Better::Lower, figure, 0.0);
        report.push(row.wanted(Some(Wanted::Ours(wanted))));
    };

    let lap = Lap::start();
    site.run(&["enqueue", "jobs.jsonl"])?;
    let seconds = lap.time().as_secs_f64();
    eprintln!("enqueue: {jobs} jobs in {seconds:.1} s");
    alone(&format!("enqueue {number} lines of JSON"), "s", seconds, WANTED_ENQUEUE_SECONDS);
    alone(&format!("status, {waiting}"), "ms", site.status_ms()?, WANTED_STATUS_MS);

    // Enough that it runs while `status` is called.
    let mut run = site.start(&["run", "--jobs", &(jobs / 20).to_string()])?;
    std::thread::sleep(effort.round / 2);
    let status = site.status_ms()?;
    let memory = peak_memory_mb(&mut run)?;
    alone(&format!("status beside run, {waiting}"), "ms", status, WANTED_STATUS_MS);
    alone(&format!("peak memory of run, {waiting}"), "MB", memory, WANTED_MEMORY_MB);

    let (mut many, mut few) = (Vec::new(), Vec::new());
    for round in 0..effort.rounds {
        many.push(speed(&site.jobs(), &format!("many-{round}"), effort.round)?);
        few.push(speed_of_few(effort.round)?);
        eprintln!(
            "speed, round {}: {:.0} jobs/s with many waiting, {:.0} with few",
            round + 1,
            many[round],
            few[round]
        );
    }
    let row = Row::new(
        &format!("{WORKERS} workers, {waiting}"),
        "1,000 waiting",
        "jobs/s",
        Better::Higher,
        median(many),
        median(few),
    );
    report.push(row.wanted(Some(Wanted::Ratio(WANTED_SPEED))));
    Ok(())
}

impl Site<'_> {
    fn jobs(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    fn write_files(&self, jobs: u64) -> Result<()> {
        // A string of JSON is one of TOML.
        let handler = serde_json::to_string(&self.programs.bench)?;
        let mut config = "[pipelines.bench]\nengine = \"sqlite:jobs.db\"\n".to_owned();
        for stage in [FIRST, SECOND] {
            writeln!(
                config,
                "[[pipelines.bench.stages]]\nname = \"{stage}\"\nconcurrency = {WORKERS}\n\
                 handler = {{ command = [{handler}, \"--answer-jobs\"], slots = {WORKERS} }}"
            )?;
        }
        std::fs::write(self.folder.path().join("tollway.toml"), config)?;
        let mut lines = BufWriter::new(File::create(self.folder.path().join("jobs.jsonl"))?);
        for number in 0..jobs {
            let group = number / 4;
            writeln!(
                lines,
                r#"{{"bucket":"documents","chunk_key":"uploads/job-{group}/chunks/chunk_{number:07}.pdf","original_file_key":"uploads/job-{group}/original.pdf","job_id":"job-{group}","timestamp":"2025-02-19T10:30:00Z"}}"#
            )?;
        }
        Ok(lines.flush()?)
    }

    fn start(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.programs.tollway).arg("pipeline").args(arguments);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.env_remove("TOLLWAY_CONFIG");
        command.spawn().context("tollway pipeline")
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let output = self.start(arguments)?.wait_with_output()?;
        ensure!(
            output.status.success(),
            "tollway pipeline {}: {}",
            arguments[0],
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// The time of a `status`, with the start of its process.
    fn status_ms(&self) -> Result<f64> {
        let call = |_| {
            let lap = Lap::start();
            self.run(&["status"])?;
            Ok(lap.time().as_secs_f64() * 1e3)
        };
        Ok(median((0..STATUS_CALLS).map(call).collect::<Result<Vec<_>>>()?))
    }
}

/// Waits for the end of the process, and returns the most memory that it had: the system's peak of its resident set.
fn peak_memory_mb(run: &mut Child) -> Result<f64> {
    let mut peak = None;
    while run.try_wait()?.is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).or(peak);
        std::thread::sleep(PAUSE);
    }
    let status = run.wait()?;
    ensure!(status.success(), "tollway pipeline run ended with {status}");
    Ok(peak.context("the memory of `run`")? * 1_024.0 / 1e6)
}

/// Jobs a second with few waiting, in a new file.
fn speed_of_few(lasts: Duration) -> Result<f64> {
    let folder = tempfile::Builder::new().prefix("tollway-bench-").tempdir()?;
    let file = folder.path().join("jobs.db");
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let engine = SqliteEngine::open(&file)?;
    runtime.block_on(enqueue(&engine, &**Limiter::builder().build().clock(), "few", 0..FEW_JOBS))?;
    drop(engine);
    speed(&file, "refill", lasts)
}

/// Jobs a second through both stages of this file, which are replaced as they finish.
fn speed(file: &Path, key: &str, lasts: Duration) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine: Arc<dyn Engine> = Arc::new(SqliteEngine::open(file)?);
        let limiter = Limiter::builder().build();
        let clock = limiter.clock().clone();
        let (runner, finished) = start(engine.clone(), limiter, WORKERS).await?;
        let lap = Lap::start();
        let mut refilled = 0;
        while lap.time() < lasts {
            while finished.load(Ordering::Relaxed) >= refilled + REFILL {
                enqueue(&*engine, &*clock, key, refilled..refilled + REFILL).await?;
                refilled += REFILL;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let per_second = finished.load(Ordering::Relaxed) as f64 / lap.time().as_secs_f64();
        runner.drain(Span::from_secs(5)).await?;
        Ok(per_second)
    })
}
