//! One pipeline of a soak: its runners, and what goes wrong underneath them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tollway_core::{Span, Timestamp};
use tollway_testkit::Random;
use tollway_testkit::faults::{Fault as NetworkFault, FaultProxy};

use super::fault::Fault;
use super::outcome::Outcome;
use super::rig::{Rig, Under};
use super::windows::{Trouble, Used};
use super::{Doing, QUOTA, WINDOW};
use crate::checker::{Limit, OPEN, check};
use crate::lab::{Jobs, Process, wait_until};
use crate::now;
use crate::outages::command_for_small_files;

/// Between two faults. Some windows have none.
const QUIET_MIN: Span = Span::from_secs(12);
const QUIET_MAX: Span = Span::from_secs(45);

/// How many windows a clock is set forward or back, at most.
const STEPS_MAX: u64 = 4;

/// A window is quiet when no call has arrived for so long: its quota is used up.
const QUIET_WINDOW: Span = Span::from_millis(300);

/// How long all jobs may take when nothing goes wrong any more.
const ENDS_WITHIN: Span = Span::from_mins(5);

/// Runs a pipeline, with faults until this time, then lets it finish.
pub(super) fn run(rig: &Rig, seed: u64, until: Timestamp, doing: &Doing) -> Outcome {
    let limit = Limit { calls: QUOTA, window: WINDOW.as_micros() };
    let clock = match &rig.under {
        Under::Stepped(clock) => Some(clock.clone()),
        _ => None,
    };
    rig.lab.vendor.has_quota(limit, clock.clone());
    let processes = rig.workers.iter().map(|worker| start(rig, worker, 0)).collect();
    doing.is(format!("{}: starts", rig.name));
    wait_until("a window's calls are done", || rig.lab.vendor.calls() >= QUOTA);
    let started = now();
    let mut track = Track {
        rig,
        processes,
        random: Random::new(seed),
        doing,
        rounds: 0,
        soak: until.since(started),
        troubles: Vec::new(),
    };
    let ended = track.suffer(until);
    let used = Used::read(&rig.lab.path("vendor.log"), started, ended, &track.troubles);
    let errors: usize = track.processes.iter().map(|process| process.errors().len()).sum();
    track.tell("ends");
    track.processes.iter_mut().for_each(Process::tell_to_end);
    track.processes.into_iter().for_each(|process| process.finish_within(ENDS_WITHIN));
    if let Under::Files(disk) = &rig.under {
        for file in ["jobs.db", "jobs.db-wal"].map(|name| disk.folder().join(name)) {
            if file.exists() {
                std::fs::copy(&file, rig.lab.path(file.file_name().unwrap().to_str().unwrap())).unwrap();
            }
        }
    }
    // The windows of a stepped clock are not those of the log: there the vendor alone counts.
    let checked = check(&rig.lab, if clock.is_some() { OPEN } else { limit }, true);
    let (refused, slipped) = rig.lab.vendor.refused_and_slipped();
    let checked = match checked {
        Ok(_) if refused > 0 => Err(format!("the vendor counted {refused} calls above its quota")),
        checked => checked,
    };
    doing.is(format!("{}: checked", rig.name));
    let mut note = format!("enqueuers tried again {errors} times; {slipped} calls were a window under way");
    if let Under::Files(disk) = &rig.under {
        note = format!("{note}; the disk is {}", disk.kind());
    }
    Outcome { name: rig.name, note, troubles: track.troubles, used, checked }
}

fn start<'r>(rig: &'r Rig, worker: &str, round: u64) -> Process<'r> {
    let plan = rig.plan(worker, round);
    rig.lab.start_by(command_for_small_files(&plan), plan)
}

struct Track<'r> {
    rig: &'r Rig,
    processes: Vec<Process<'r>>,
    random: Random,
    doing: &'r Doing,
    /// How many runners were started again.
    rounds: u64,
    soak: Span,
    troubles: Vec<Trouble>,
}

impl Track<'_> {
    /// One fault after the other until this time. When the last one was over.
    fn suffer(&mut self, until: Timestamp) -> Timestamp {
        loop {
            let quiet = self.random.between(QUIET_MIN.as_micros(), QUIET_MAX.as_micros());
            self.tell("works");
            sleep(Span::from_micros(quiet).min(until.since(now())));
            if now() >= until {
                return until;
            }
            let fault = *self.random.pick(self.rig.faults);
            let length = fault.draw(&mut self.random, self.soak);
            self.tell(&format!("{fault:?} for {length}"));
            let from = now();
            let outage = self.befall(fault, length);
            self.troubles.push(Trouble { fault, from, to: now(), outage });
            for process in &mut self.processes {
                assert!(!process.has_ended(), "{} has ended by itself after {fault:?}", process.plan.process);
            }
        }
    }

    /// Lets a fault happen, and waits until it is over. Whether the store or the engine did not answer meanwhile: a pipeline whose
    /// jobs one process owns has no engine without it.
    fn befall(&mut self, fault: Fault, length: Span) -> bool {
        let alone = self.processes.len() == 1;
        match fault {
            Fault::ServerKilled | Fault::ServerFrozen => self.stop_server(fault, length),
            Fault::QueuesCut | Fault::QueuesSilent | Fault::CountersCut => self.cut(fault, length),
            Fault::FileLocked => self.lock_file(length),
            Fault::DiskFull => {
                let Under::Files(disk) = &self.rig.under else { unreachable!() };
                disk.fill(&self.processes);
                sleep(length);
                disk.free(&self.processes);
            }
            Fault::RunnerKilled => {
                self.kill_runner();
                return alone;
            }
            Fault::RunnerFrozen => {
                let frozen = self.random.pick(&self.processes);
                frozen.freeze(true);
                sleep(length);
                frozen.freeze(false);
                return alone;
            }
            Fault::HandlerKilled => {
                self.kill_handler();
                return false;
            }
            Fault::ClockStepped => self.step_clock(),
        }
        true
    }

    fn stop_server(&self, fault: Fault, length: Span) {
        let Jobs::Postgres(server, _) = &self.rig.lab.jobs else { unreachable!() };
        // Claims that are committed when the server dies have no caller.
        self.rig.lab.note_kill("server");
        if fault == Fault::ServerKilled {
            server.kill();
            sleep(length);
            server.restart();
        } else {
            server.pause();
            sleep(length);
            server.resume();
        }
        server.query("SELECT 1");
    }

    fn cut(&self, fault: Fault, length: Span) {
        let Under::Proxies(proxies) = &self.rig.under else { unreachable!() };
        let (queues, counters) = (&proxies.queues, &proxies.counters);
        // So have claims whose answers are cut off.
        self.rig.lab.note_kill("network");
        let cut = |proxy: &FaultProxy| {
            proxy.set(NetworkFault::Reset);
            sleep(Span::from_millis(100));
            proxy.set(NetworkFault::Refuse);
        };
        match fault {
            Fault::QueuesSilent => queues.set(NetworkFault::Blackhole),
            Fault::QueuesCut => cut(queues),
            _ => cut(counters),
        }
        sleep(length);
        queues.clear();
        counters.clear();
    }

    /// Another process begins a transaction, as a person with a shell for SQLite may.
    fn lock_file(&self, length: Span) {
        let Under::Files(disk) = &self.rig.under else { unreachable!() };
        let mut locker = Locker::start(&disk.folder().join("jobs.db").display().to_string());
        sleep(length);
        locker.end();
    }

    fn kill_runner(&mut self) {
        let index = self.random.below(self.processes.len() as u64) as usize;
        let killed = self.processes.remove(index);
        let worker = killed.plan.worker.clone();
        killed.kill();
        self.rounds += 1;
        self.processes.push(start(self.rig, &worker, self.rounds));
    }

    fn kill_handler(&mut self) {
        let handlers: Vec<String> = self.processes.iter().flat_map(Process::handlers).collect();
        if handlers.is_empty() {
            return;
        }
        let pid = Pid::from_raw(self.random.pick(&handlers).parse().unwrap()).unwrap();
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }

    /// Sets the vendor's clock and the runner's while no call is on its way: a call belongs to the window that both see.
    fn step_clock(&mut self) {
        let Under::Stepped(clock) = &self.rig.under else { unreachable!() };
        let vendor = &self.rig.lab.vendor;
        wait_until("a window is used up", || {
            let (calls, last) = vendor.window();
            let since = now().since(last);
            calls >= QUOTA && since >= QUIET_WINDOW && since < WINDOW
        });
        let windows = self.random.between(1, STEPS_MAX) * WINDOW.as_micros();
        let windows = i64::try_from(windows).unwrap();
        let forward = self.random.below(2) == 0;
        clock.set(clock.offset() + if forward { windows } else { -windows });
        // The running window has two quotas, or none, depending on the direction.
        sleep(WINDOW);
    }

    fn tell(&self, what: &str) {
        let calls = self.rig.lab.vendor.calls();
        let faults = self.troubles.len();
        let since = now().since(Timestamp::EPOCH).as_micros() / 1_000_000 % 60;
        self.doing
            .is(format!("{}: {calls} calls, {faults} faults; {what} (since second {since})", self.rig.name));
    }
}

/// A process that holds a file's lock. Dropping it ends it.
struct Locker(Child);

impl Locker {
    fn start(file: &str) -> Self {
        let lock = "import sqlite3, sys\n\
             connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)\n\
             connection.execute('BEGIN IMMEDIATE')\n\
             print('locked', flush=True)\n\
             sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", lock, file]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n", "the file was never free for another process");
        Self(child)
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleep(span: Span) {
    std::thread::sleep(Duration::from(span));
}
