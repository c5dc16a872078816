//! The same workers without Tollway: a list of jobs in memory, no limit, no dead letters.
//!
//! Each worker gets the next document and does both stages. A job that fails three times is lost, and so is the job of a
//! worker that is killed: nothing else knows of it.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use super::documents::{Document, STAGES, TRIES};
use super::protocol::{Input, Job, WorkerMessage};
use super::worker_processes::WorkerProcesses;
use crate::failure::{Exit, Failure};

/// Workers without Tollway. Dropping it kills them.
pub(super) struct Alone {
    jobs: Arc<Mutex<AloneJobs>>,
    _workers: JoinSet<()>,
}

struct AloneJobs {
    waiting: VecDeque<Document>,
    progress: AloneProgress,
    /// Why a worker could not be started.
    error: Option<io::Error>,
}

/// How far they are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AloneProgress {
    pub(super) done: u64,
    /// Jobs that failed too often.
    pub(super) failed: u64,
    /// Jobs whose worker died.
    pub(super) killed: u64,
}

impl AloneProgress {
    pub(super) fn lost(self) -> u64 {
        self.failed + self.killed
    }
}

impl Alone {
    /// Starts the workers. Needs a tokio runtime.
    pub(super) fn start(jobs: u64, workers: u64, processes: &WorkerProcesses) -> Self {
        let waiting = (1..=jobs).map(|number| Document::new(number, jobs)).collect();
        let jobs = AloneJobs { waiting, progress: AloneProgress::default(), error: None };
        let jobs = Arc::new(Mutex::new(jobs));
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(Arc::clone(&jobs), processes.clone()));
        }
        Self { jobs, _workers: tasks }
    }

    pub(super) fn progress(&self) -> Result<AloneProgress, Failure> {
        let mut jobs = lock(&self.jobs);
        match jobs.error.take() {
            Some(error) => Err(Failure::new(Exit::FAILED, format!("cannot start a worker: {error}"))
                .advise("start fewer workers: --workers 4")),
            None => Ok(jobs.progress),
        }
    }
}

/// Does jobs until none is left. A worker that died is replaced.
async fn work(jobs: Arc<Mutex<AloneJobs>>, processes: WorkerProcesses) {
    let mut worker: Option<Worker> = None;
    while let Some(document) = next(&jobs) {
        let mut current = match worker.take().map_or_else(|| Worker::start(&processes), Ok) {
            Ok(worker) => worker,
            Err(error) => {
                lock(&jobs).error = Some(error);
                return;
            }
        };
        let done = current.run(document).await;
        let progress = &mut lock(&jobs).progress;
        match done {
            Ok(true) => progress.done += 1,
            Ok(false) => progress.failed += 1,
            Err(_) => progress.killed += 1,
        }
        worker = done.is_ok().then_some(current);
    }
}

fn next(jobs: &Mutex<AloneJobs>) -> Option<Document> {
    lock(jobs).waiting.pop_front()
}

fn lock(jobs: &Mutex<AloneJobs>) -> MutexGuard<'_, AloneJobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A worker process, killed when dropped.
struct Worker {
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(processes: &WorkerProcesses) -> io::Result<Self> {
        let [program, arguments @ ..] = &processes.command[..] else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut command = Command::new(program);
        // Its own process group keeps Ctrl-C from it.
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::Error::other("a new process has no pipes"));
        };
        Ok(Self { _process: process, input, output: BufReader::new(output).lines() })
    }

    /// Both stages of a document. False: it failed too often. An error means that the process died.
    async fn run(&mut self, mut document: Document) -> io::Result<bool> {
        for stage in STAGES {
            let mut tries = 0;
            loop {
                tries += 1;
                match self.attempt(stage, &document).await? {
                    WorkerMessage::Done { outputs, .. } => {
                        document = outputs.into_iter().next().map_or(document, |output| output.data);
                        break;
                    }
                    _ if tries < TRIES => {}
                    _ => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    async fn attempt(&mut self, stage: &str, document: &Document) -> io::Result<WorkerMessage> {
        // One job at a time, so that one id is enough.
        let job = Job { id: 1, stage: stage.to_owned(), data: document.clone() };
        let line = serde_json::to_string(&Input::Job(job))? + "\n";
        self.input.write_all(line.as_bytes()).await?;
        let line = self.output.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(serde_json::from_str(&line)?)
    }
}
