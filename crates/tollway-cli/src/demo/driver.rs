//! Runs the demo: starts vendor and workers, kills one worker and replaces it, then stops all.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use tollway::Clock;
use tollway_memory::WallClock;

use super::screen::Screen;
use super::state::{DemoState, Killed, Plan};
use super::vendor::Vendor;
use super::worker_processes::WorkerProcesses;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How often to poll and to draw.
const TICK: Duration = Duration::from_millis(100);
/// The worker that is killed, if there are that many.
const KILLED_WORKER: usize = 3;

/// Runs the demo to its end, or until it is interrupted.
pub(super) fn drive(plan: &Plan, output: &Output) -> Result<DemoState, Failure> {
    let interrupted = interruption().map_err(cannot("watch for Ctrl-C"))?;
    let folder = tempfile::Builder::new().prefix("tollway-demo-").tempdir().map_err(|error| {
        cannot("create a folder for its store")(error).advise("set $TMPDIR to a writable folder")
    })?;
    let latency = plan.quota.latency(plan.workers);
    let vendor = Vendor::open(plan.quota, latency).map_err(cannot("open a port on this machine"))?;
    let mut workers = WorkerProcesses::new(worker_arguments(plan, vendor.address(), folder.path()))
        .map_err(cannot("find its own executable"))?;
    let mut state = DemoState::new(*plan, WallClock.now());
    let mut screen = Screen::new(output, &state);
    for _ in 0..plan.workers {
        workers.start()?;
    }
    while state.now < state.ends_at() && !state.interrupted {
        thread::sleep(TICK.min(state.ends_at().since(state.now).into()));
        state.now = WallClock.now();
        state.interrupted = interrupted.load(Ordering::Relaxed);
        workers.check()?;
        kill_and_replace(&mut state, &mut workers)?;
        state.tally = vendor.tally();
        screen.show(&state);
    }
    screen.close();
    workers.end();
    state.tally = vendor.tally();
    state.pids = workers.pids().collect();
    Ok(state)
}

/// Kills and replaces a worker when it is time.
fn kill_and_replace(state: &mut DemoState, workers: &mut WorkerProcesses) -> Result<(), Failure> {
    let (kill, replace) = (state.now >= state.kills_at(), state.now >= state.replaces_at());
    match &mut state.killed {
        None if kill => {
            let worker = KILLED_WORKER.min(state.plan.workers);
            workers.kill(worker)?;
            state.killed = Some(Killed { worker, at: state.now, replaced_by: None });
        }
        Some(Killed { replaced_by: replaced_by @ None, .. }) if replace => {
            *replaced_by = Some(workers.start()?)
        }
        _ => {}
    }
    Ok(())
}

/// Set on Ctrl-C, on a termination signal, and when the terminal closes.
fn interruption() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// The arguments of a worker. Without a store it does not use Tollway.
fn worker_arguments(plan: &Plan, vendor: SocketAddr, folder: &Path) -> Vec<OsString> {
    let quota = plan.quota;
    let mut worker_arguments: Vec<OsString> =
        ["demo", "--limit", &quota.limit.to_string(), "--minute", &quota.minute_text()]
            .into_iter()
            .chain(["--vendor", &vendor.to_string()])
            .map(OsString::from)
            .collect();
    if plan.with_tollway {
        worker_arguments.extend(["--state".into(), folder.join("state").into_os_string()]);
    }
    worker_arguments
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(Exit::FAILED, format!("the demo cannot {what}: {error}"))
}
