//! A folder with jobs, a vendor, children that work on the jobs, and what they leave behind.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tollway_core::Span;
use tollway_testkit::servers::{Ministack, PostgresServer};

use crate::child::{self, Enqueues, Handlers, Plan};
use crate::now;
use crate::vendor::Vendor;

/// Longer than a busy machine needs for anything here.
const PATIENCE: Span = Span::from_mins(2);

/// Where the jobs are.
pub(crate) enum Jobs {
    /// In a file of the lab's folder.
    Sqlite,
    /// In a schema of a server that all labs share.
    Postgres(&'static PostgresServer, String),
    /// In queues, through a proxy; and the URL that goes around it.
    Sqs {
        through: String,
        around: String,
        /// Runs until the test ends.
        _server: Box<Ministack>,
    },
}

impl Jobs {
    /// On a server of its own, which can be restarted. It ends with the test.
    pub(crate) fn own_postgres() -> Self {
        Self::Postgres(Box::leak(Box::new(PostgresServer::start())), "lab".to_owned())
    }

    /// In queues of a server of its own, which children reach at the endpoint that `front` makes of its address.
    pub(crate) fn sqs(front: impl FnOnce(SocketAddr) -> String) -> Self {
        let server = Ministack::start();
        let url = |endpoint: &str| {
            format!("sqs:?ledger=jobs&endpoint={endpoint}&access=test:test&create=yes&wait=1s")
        };
        let around = url(&server.endpoint());
        let through = url(&front(server.addr()));
        Self::Sqs { through, around, _server: Box::new(server) }
    }

    pub(crate) fn postgres() -> Self {
        static SCHEMAS: AtomicU64 = AtomicU64::new(0);
        let schema = format!("lab_{}", SCHEMAS.fetch_add(1, Ordering::SeqCst));
        Self::Postgres(PostgresServer::shared(), schema)
    }
}

pub(crate) struct Lab {
    pub(crate) jobs: Jobs,
    pub(crate) vendor: Vendor,
    folder: TempDir,
}

impl Lab {
    pub(crate) fn new(jobs: Jobs) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vendor = Vendor::start(&folder.path().join("vendor.log"));
        Self { jobs, vendor, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the `round`th process of a worker does: it enqueues until it is told to end, and never comes near the limit.
    pub(crate) fn plan(&self, worker: &str, round: u64) -> Plan {
        let jobs = match &self.jobs {
            Jobs::Sqlite => self.path("jobs.db").display().to_string(),
            Jobs::Postgres(server, schema) => format!("{}?schema={schema}", server.url()),
            Jobs::Sqs { through, .. } => through.clone(),
        };
        Plan {
            jobs,
            store: format!("file:{}", self.path("limits").display()),
            limit: "10000 / second".to_owned(),
            strict: false,
            clock: None,
            vendor: self.vendor.address.clone(),
            handlers: Handlers::InProcess,
            concurrency: 4,
            free_stage: false,
            audit: self.path("audit.log"),
            worker: worker.to_owned(),
            process: format!("{worker}.{round}"),
            enqueues: Enqueues::Every(Duration::from_millis(50)),
            bug: None,
            dies_at: None,
        }
    }

    pub(crate) fn start(&self, plan: Plan) -> Process<'_> {
        self.start_by(child::command(&plan), plan)
    }

    /// Starts a child by another command.
    pub(crate) fn start_by(&self, mut command: Command, plan: Plan) -> Process<'_> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.by_ref().map_while(Result::ok).any(|line| line.ends_with("started")),
            "{} did not start",
            plan.process
        );
        let errors = Arc::new(Mutex::new(Vec::new()));
        let noted = errors.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok).filter(|line| line.starts_with("error ")) {
                noted.lock().unwrap().push(line);
            }
        });
        Process { lab: self, plan, child, errors }
    }

    /// Notes what was killed: a process, or the server of the jobs.
    pub(crate) fn note_kill(&self, process: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path("kills.log")).unwrap();
        writeln!(file, "{process}").unwrap();
    }
}

/// A child. Dropping it kills it.
pub(crate) struct Process<'l> {
    lab: &'l Lab,
    pub(crate) plan: Plan,
    child: Child,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Process<'_> {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended, although it was not told to.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Stops it, and lets it go on. Its handlers and its connections stay as they are.
    pub(crate) fn freeze(&self, frozen: bool) {
        let pid = Pid::from_raw(self.id().try_into().unwrap()).unwrap();
        kill_process(pid, if frozen { Signal::STOP } else { Signal::CONT }).unwrap();
    }

    /// Why its enqueuer could not enqueue, so far.
    pub(crate) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }

    /// `kill -9`. Its handlers end with it.
    pub(crate) fn kill(mut self) {
        self.lab.note_kill(&self.plan.process);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        wait_until("the handlers of a killed pipeline are gone", || self.handlers().is_empty());
    }

    /// Waits until it has killed itself.
    pub(crate) fn dies(mut self) {
        wait_until("it dies", || self.child.try_wait().unwrap().is_some());
        assert!(!self.child.wait().unwrap().success());
        self.lab.note_kill(&self.plan.process);
    }

    /// Tells it to enqueue no more, and to end when all jobs are finished.
    pub(crate) fn tell_to_end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Lets it finish all jobs.
    pub(crate) fn finish(self) {
        self.finish_within(PATIENCE);
    }

    pub(crate) fn finish_within(mut self, patience: Span) {
        self.tell_to_end();
        wait_until_within(patience, "it finishes all jobs", || self.child.try_wait().unwrap().is_some());
        assert!(self.child.wait().unwrap().success(), "{} failed", self.plan.process);
    }

    /// The Python processes that work for it, and what they forked.
    pub(crate) fn handlers(&self) -> Vec<String> {
        let marks =
            [format!("WORKER_VENDOR={}", self.plan.vendor), format!("WORKER_OF={}", self.plan.process)];
        let is_ours = |pid: &String| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut found = environment
                .split(|byte| *byte == 0)
                .filter(|variable| marks.iter().any(|mark| *variable == mark.as_bytes()));
            found.by_ref().count() == marks.len()
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_ours).collect()
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits; a machine that is too slow fails, and nothing depends on how long it takes.
pub(crate) fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    wait_until_within(PATIENCE, what, condition);
}

pub(crate) fn wait_until_within(patience: Span, what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = now().plus(patience);
    while !condition() {
        assert!(now() < deadline, "not within {patience}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
