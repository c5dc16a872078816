//! Runs the demo: starts vendors and workers, looks at them until all jobs have ended, then stops all.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollway::Clock;
use tollway_memory::WallClock;

use super::alone::Alone;
use super::audit::{Audit, audit};
use super::dashboard::{self, Kept, Serving};
use super::events::Lowering;
use super::pipeline::{self, Pipeline};
use super::quota::Quota;
use super::screen::Screen;
use super::state::{DemoState, Plan};
use super::vendor::Vendor;
use super::worker_processes::WorkerProcesses;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How often to poll and to draw.
const TICK: Duration = Duration::from_millis(100);

/// The file of its jobs.
const JOBS: &str = "jobs.db";

/// A demo that runs. The runtime is last: processes that are left end with it.
pub(super) struct Demo {
    pub(super) state: DemoState,
    pub(super) lowering: Lowering,
    pub(super) vendor: Vendor,
    pub(super) workers: WorkerProcesses,
    pub(super) pipeline: Pipeline,
    pub(super) alone: Option<AloneDemo>,
    serving: Option<Serving>,
    pub(super) runtime: Runtime,
}

/// The workers without Tollway, and their vendor.
pub(super) struct AloneDemo {
    pub(super) vendor: Vendor,
    pub(super) workers: WorkerProcesses,
    pub(super) jobs: Alone,
}

/// Runs the demo to its end, or until it is interrupted.
pub(super) fn drive(plan: Plan, quota: Quota, output: &Output) -> Result<(DemoState, Audit, Kept), Failure> {
    let interrupted = interruption().map_err(cannot("watch for Ctrl-C"))?;
    let folder = tempfile::Builder::new().prefix("tollway-demo-").tempdir().map_err(|error| {
        cannot("create a folder for its jobs")(error).advise("set $TMPDIR to a writable folder")
    })?;
    let mut demo = Demo::start(plan, quota, folder.path())?;
    if !output.is_json() && !output.is_quiet() {
        let serving = demo.serve_dashboard(folder.path(), output.is_watched())?;
        output.note(format_args!("dashboard: {}", serving.url));
        demo.serving = Some(serving);
    }
    let mut screen = Screen::new(output, &demo.state);
    while !demo.state.is_over() {
        thread::sleep(TICK);
        demo.state.interrupted = interrupted.load(Ordering::Relaxed);
        demo.step()?;
        screen.show(&demo.state);
    }
    screen.close(&demo.state);
    demo.stop(interrupted, folder)
}

impl Demo {
    fn start(plan: Plan, quota: Quota, folder: &Path) -> Result<Self, Failure> {
        // Of its own threads, so that a terminal that blocks this one delays no call.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(cannot("start its threads"))?;
        let open = || Vendor::open(quota.clone(), quota.latency(plan.workers));
        let vendor = open().map_err(cannot("open a port on this machine"))?;
        let workers = WorkerProcesses::new(&folder.join("workers"), vendor.address(), None)?;
        let started_at = WallClock.now();
        let alone = match plan.without {
            None => None,
            Some(after_refusal) => {
                let vendor = open().map_err(cannot("open a port on this machine"))?;
                let workers =
                    WorkerProcesses::new(&folder.join("alone"), vendor.address(), Some(after_refusal))?;
                let _entered = runtime.enter();
                Some(AloneDemo { jobs: Alone::start(plan.jobs, plan.workers, &workers), vendor, workers })
            }
        };
        let pipeline = runtime.block_on(Pipeline::start(&plan, &quota, &workers, &folder.join(JOBS)))?;
        let state = DemoState::new(plan, quota, started_at);
        let (lowering, serving) = (Lowering::default(), None);
        Ok(Self { state, lowering, vendor, workers, pipeline, alone, serving, runtime })
    }

    fn serve_dashboard(&self, folder: &Path, on_terminal: bool) -> Result<Serving, Failure> {
        let stages = pipeline::stages(self.state.plan.workers, &self.workers.command)?;
        self.runtime.block_on(dashboard::serve(&self.pipeline, stages, &folder.join(JOBS), on_terminal))
    }

    /// Looks at all that runs, and lets happen what is due.
    fn step(&mut self) -> Result<(), Failure> {
        let progress = self.runtime.block_on(self.pipeline.progress())?;
        let state = &mut self.state;
        state.now = WallClock.now();
        state.observe(&progress);
        state.tollway.tally = self.vendor.tally();
        if let (Some(alone), Some(seen)) = (&self.alone, &mut state.alone) {
            (seen.progress, seen.side.tally) = (alone.jobs.progress()?, alone.vendor.tally());
            if seen.side.ended_at.is_none() && seen.progress.done + seen.progress.lost() == state.plan.jobs {
                (seen.side.busy_until, seen.side.ended_at) = (Some(state.now), Some(state.now));
            }
        }
        self.change_limit()?;
        self.kill_workers();
        self.redrive()
    }

    /// Stops everything, and checks what became of the jobs.
    fn stop(
        self,
        interrupted: Arc<AtomicBool>,
        folder: TempDir,
    ) -> Result<(DemoState, Audit, Kept), Failure> {
        let Self { mut state, vendor, pipeline, alone, serving, runtime, .. } = self;
        let records = runtime.block_on(pipeline.stop())?;
        let audit = audit(state.plan.jobs, &records, &vendor.served());
        state.tollway.tally = vendor.tally();
        drop(alone);
        Ok((state, audit, Kept { serving, interrupted, _folder: folder, _runtime: runtime }))
    }
}

/// Set on Ctrl-C, on a termination signal, and when the terminal closes.
fn interruption() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(Exit::FAILED, format!("the demo cannot {what}: {error}"))
}
