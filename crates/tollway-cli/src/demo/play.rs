//! Lets it happen: the vendor opens, workers come, one is killed, another takes its place, all of them leave.

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

use super::course::{Course, Killed, Plan};
use super::crew::Crew;
use super::screen::Screen;
use super::vendor::Vendor;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How often to look, and to draw.
const TICK: Duration = Duration::from_millis(100);
/// Who is killed, where there are so many.
const VICTIM: usize = 3;

/// Plays it to its end, or until somebody has seen enough.
pub(super) fn play(plan: &Plan, output: &Output) -> Result<Course, Failure> {
    let interrupted = interruption().map_err(cannot("watch for Ctrl-C"))?;
    let folder = tempfile::Builder::new().prefix("tollway-demo-").tempdir().map_err(|error| {
        cannot("make a folder for its store")(error).advise("set $TMPDIR to a folder that can be written to")
    })?;
    let latency = plan.quota.latency(plan.workers);
    let vendor = Vendor::open(plan.quota, latency).map_err(cannot("open a port on this machine"))?;
    let mut crew =
        Crew::new(orders(plan, vendor.address(), folder.path())).map_err(cannot("find its own program"))?;
    let mut course = Course::new(*plan, WallClock.now());
    let mut screen = Screen::new(output, &course);
    for _ in 0..plan.workers {
        crew.hire()?;
    }
    while course.now < course.ends_at() && !course.interrupted {
        thread::sleep(TICK.min(course.ends_at().since(course.now).into()));
        course.now = WallClock.now();
        course.interrupted = interrupted.load(Ordering::Relaxed);
        crew.check()?;
        direct(&mut course, &mut crew)?;
        course.tally = vendor.tally();
        screen.show(&course);
    }
    screen.close();
    crew.end();
    course.tally = vendor.tally();
    course.pids = crew.pids().collect();
    Ok(course)
}

/// Kills and replaces when it is time.
fn direct(course: &mut Course, crew: &mut Crew) -> Result<(), Failure> {
    let (kill, replace) = (course.now >= course.kills_at(), course.now >= course.replaces_at());
    match &mut course.killed {
        None if kill => {
            let worker = VICTIM.min(course.plan.workers);
            crew.kill(worker)?;
            course.killed = Some(Killed { worker, at: course.now, replaced_by: None });
        }
        Some(Killed { replaced_by: replaced_by @ None, .. }) if replace => *replaced_by = Some(crew.hire()?),
        _ => {}
    }
    Ok(())
}

/// Set when somebody wants it to end: by Ctrl-C, by a signal, or by closing the terminal.
fn interruption() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// What a worker is told. Without a store it works without Tollway.
fn orders(plan: &Plan, vendor: SocketAddr, folder: &Path) -> Vec<OsString> {
    let quota = plan.quota;
    let mut orders: Vec<OsString> =
        ["demo", "--limit", &quota.limit.to_string(), "--minute", &quota.minute_text()]
            .into_iter()
            .chain(["--vendor", &vendor.to_string()])
            .map(OsString::from)
            .collect();
    if plan.with_tollway {
        orders.extend(["--state".into(), folder.join("state").into_os_string()]);
    }
    orders
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::new(Exit::FAILED, format!("the demo cannot {what}: {error}"))
}
