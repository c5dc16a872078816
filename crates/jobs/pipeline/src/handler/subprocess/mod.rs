//! Handlers that are processes: long-lived, one JSON object a line.
//!
//! ```text
//! pipeline: {"job": {"id": 7, "key": "chunk-7", "stage": "autotag", "try": 1, "deadline": 1771497005.0, "data": {...}}}
//! handler:  {"begin": 7}                                              only with `begin = true`
//! pipeline: {"go": 7}
//! handler:  {"done": 7, "outputs": [{"data": {...}}], "cost": {"tokens": 3120}}
//!           {"retry": 7, "error": "timeout"}   {"rate_limited": 7, "after": 30}   {"dead": 7, "error": "not a PDF"}
//! ```
//!
//! A line is at most 1 MiB. What a job hands on beyond that comes in parts: lines `{"part": 7, "outputs": [...]}` before `done`.
//!
//! With `each = true`, a process gets one job and then the end of its input. If it ends without an answer, its exit code
//! is the answer: 0 done, 75 retry, 65 dead, others failed.

mod each;
mod guarded;
mod lines;
mod parts;
mod process;
pub(super) mod protocol;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot, watch};
use tollway_core::Span;
use tower::{BoxError, Service};

use self::process::Process;
use super::guard::GuardProgram;
use super::redact::Redactor;
use super::{Answer, Task};
use crate::CommandConfig;

/// How many processes in a row may die at once before the stage is paused.
const QUICK_DEATHS_MAX: u32 = 5;

/// How much of a command is in messages, which have a line.
const PROGRAM_BYTES_MAX: usize = 200;

/// A handler that runs a command. Clones share its processes.
#[derive(Clone)]
pub struct Subprocess(Arc<Pool>);

/// The processes of a stage. There are at most as many as jobs that run at a time.
struct Pool {
    setup: Setup,
    processes: Mutex<Vec<Handle>>,
    /// Processes in a row that died before they answered anything.
    quick_deaths: Arc<AtomicU32>,
    /// Its change tells every process to end.
    stop: watch::Sender<()>,
}

/// How a process is started.
#[derive(Clone)]
struct Setup {
    command: CommandConfig,
    guard: GuardProgram,
    timeout: Span,
    redactor: Redactor,
}

impl Setup {
    /// The command, for messages.
    fn program(&self) -> String {
        let command = self.command.command.join(" ");
        self.redactor.redact(&command[..command.floor_char_boundary(PROGRAM_BYTES_MAX)])
    }
}

/// A process that takes jobs.
struct Handle {
    jobs: mpsc::Sender<Assignment>,
    /// Jobs that it works on. Only raised under the lock of the pool.
    busy: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

/// A job for a process.
struct Assignment {
    task: Task,
    answer: oneshot::Sender<Answer>,
}

impl Subprocess {
    /// Runs a command; a job that takes longer than `timeout` fails, and its process is ended.
    pub fn new(command: CommandConfig, guard: GuardProgram, timeout: Span) -> Self {
        let redactor = Redactor::new(&command.env);
        Self(Arc::new(Pool {
            setup: Setup { command, guard, timeout, redactor },
            processes: Mutex::default(),
            quick_deaths: Arc::default(),
            stop: watch::Sender::new(()),
        }))
    }

    /// Ends every process, and waits until they are gone. Their jobs are crashes.
    pub async fn stop(&self) {
        let processes = std::mem::take(&mut *self.0.lock());
        self.0.stop.send_replace(());
        for process in processes {
            drop(process.jobs);
            // A task that panicked has ended, and its guard with it.
            let _ = process.task.await;
        }
    }

    async fn run(&self, task: Task) -> Answer {
        let (answer, answered) = oneshot::channel();
        let assignment = Assignment { task, answer };
        let sent = match self.0.setup.command.each {
            true => self.0.start_each(assignment),
            false => self.0.assign(assignment),
        };
        match sent {
            Ok(()) => answered.await.unwrap_or_else(|_| crash("the handler's process ended")),
            Err(error) => Answer::Unreachable {
                error: format!("`{}` cannot be started: {error}", self.0.setup.program()),
                detail: format!(
                    "its guard is {} in the folder {}",
                    self.0.setup.guard.program.display(),
                    self.0.setup.command.folder.display()
                ),
            },
        }
    }
}

impl Pool {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Handle>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a job to a process with a free slot, or to a new one.
    fn assign(&self, mut assignment: Assignment) -> std::io::Result<()> {
        let slots = usize::try_from(self.setup.command.slots).unwrap_or(1);
        let mut processes = self.lock();
        processes.retain(|process| !process.jobs.is_closed());
        for process in processes.iter() {
            if process.busy.fetch_add(1, Ordering::SeqCst) < slots {
                match process.jobs.try_send(assignment) {
                    Ok(()) => return Ok(()),
                    Err(error) => assignment = error.into_inner(),
                }
            }
            process.busy.fetch_sub(1, Ordering::SeqCst);
        }
        let (jobs, assigned) = mpsc::channel(slots);
        let busy = Arc::new(AtomicUsize::new(1));
        let process = Process::start(
            self.setup.clone(),
            busy.clone(),
            self.quick_deaths.clone(),
            self.stop.subscribe(),
        )?;
        // The channel is new and empty.
        let _ = jobs.try_send(assignment);
        processes.push(Handle { jobs, busy, task: tokio::spawn(process.run(assigned)) });
        Ok(())
    }

    fn start_each(&self, assignment: Assignment) -> std::io::Result<()> {
        let mut processes = self.lock();
        processes.retain(|process| !process.task.is_finished());
        let run = each::start(self.setup.clone(), assignment, self.stop.subscribe())?;
        let (jobs, _) = mpsc::channel(1);
        processes.push(Handle { jobs, busy: Arc::new(AtomicUsize::new(1)), task: tokio::spawn(run) });
        Ok(())
    }
}

impl Service<Task> for Subprocess {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, task: Task) -> Self::Future {
        let handler = self.clone();
        Box::pin(async move { Ok(handler.run(task).await) })
    }
}

fn crash(error: impl Into<String>) -> Answer {
    Answer::Crash { error: error.into(), detail: String::new(), pause: false }
}
