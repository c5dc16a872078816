//! One long-lived process and its jobs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::guarded::Guarded;
use super::lines::Line;
use super::parts::Parts;
use super::protocol::{self, HandlerMessage};
use super::{Assignment, QUICK_DEATHS_MAX, Setup, crash};
use crate::bounds::DETAIL_BYTES_MAX;
use crate::handler::own_time::{OwnTime, READ_WITHIN};
use crate::handler::{Answer, Turn};

/// A process that ends sooner than this without an answer died at once.
const QUICK_DEATH: Duration = Duration::from_secs(5);

/// How long the last lines of a process are waited for after its guard has ended.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// How a shell ends that cannot find a program.
const NOT_FOUND: &str = "exit code 127";

/// A process with its guard.
pub(super) struct Process {
    setup: Setup,
    guarded: Guarded,
    jobs: HashMap<u64, Running>,
    busy: Arc<AtomicUsize>,
    quick_deaths: Arc<AtomicU32>,
    stop: watch::Receiver<()>,
    started: Instant,
    /// Deadlines are in this time.
    time: OwnTime,
    answered: bool,
}

/// A job that the process works on.
struct Running {
    turn: Turn,
    /// It has said that it begins: once is enough.
    begins: bool,
    parts: Parts,
    answer: oneshot::Sender<Answer>,
    /// None while it waits for its go: that is the vendor's time, not the handler's.
    deadline: Option<Duration>,
}

/// A job that asked to begin, and why it may not.
type Begun = (u64, Result<(), String>);

/// Why a process is over.
enum End {
    /// It ended by itself.
    Exited,
    /// Its program could not be started, for this reason.
    NotStarted(String),
    /// It said something outside the protocol: what, and its first bytes.
    Garbage(String, Vec<u8>),
    /// This job was not answered in time.
    Timeout(u64),
    /// The limiter did not let this job begin, and its handler waits for a go.
    CannotBegin(u64, String),
    /// The pipeline wants no more of it.
    Stopped,
}

impl Process {
    pub(super) fn start(
        setup: Setup,
        busy: Arc<AtomicUsize>,
        quick_deaths: Arc<AtomicU32>,
        stop: watch::Receiver<()>,
    ) -> std::io::Result<Self> {
        let guarded = Guarded::start(&setup, false)?;
        let (jobs, started, time) = (HashMap::new(), Instant::now(), OwnTime::new());
        Ok(Self { setup, guarded, jobs, busy, quick_deaths, stop, started, time, answered: false })
    }

    /// Works until the process ends, or the pipeline closes the channel.
    pub(super) async fn run(mut self, mut assigned: mpsc::Receiver<Assignment>) {
        // Two lines a job: it, and its go.
        let slots = usize::try_from(self.setup.command.slots).unwrap_or(1);
        let (input, lines) = mpsc::channel(2 * slots + 2);
        if let Some(stdin) = self.guarded.stdin.take() {
            tokio::spawn(write_lines(stdin, lines));
        }
        let end = self.serve(&mut assigned, &input).await;
        assigned.close();
        drop(input);
        let status = self.guarded.end().await;
        while let Ok(late) = assigned.try_recv() {
            self.add(late);
        }
        self.conclude(&end, &status);
    }

    async fn serve(
        &mut self,
        assigned: &mut mpsc::Receiver<Assignment>,
        input: &mpsc::Sender<String>,
    ) -> End {
        let slots = usize::try_from(self.setup.command.slots).unwrap_or(1);
        let (begun, mut begins) = mpsc::channel(slots);
        loop {
            let next_deadline = self.jobs.iter().filter_map(|(id, job)| Some((job.deadline?, *id))).min();
            let time = &mut self.time;
            let deadline = async {
                match next_deadline {
                    Some((at, id)) => {
                        time.sleep_until(at).await;
                        id
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                assignment = assigned.recv() => match assignment {
                    Some(assignment) => self.hand_over(assignment, input),
                    None => return End::Stopped,
                },
                line = self.guarded.output.next() => if let Some(end) = self.read(line, &begun) {
                    return end;
                },
                Some((id, begins)) = begins.recv() => match begins {
                    Ok(()) => self.go(id, input),
                    Err(error) => return End::CannotBegin(id, error),
                },
                id = deadline => if let Some(end) = self.read_late(id, &begun).await {
                    return end;
                },
                _ = self.stop.changed() => return End::Stopped,
                _ = self.guarded.child.wait() => return self.last_lines(&begun).await,
            }
        }
    }

    fn go(&mut self, id: u64, input: &mpsc::Sender<String>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.deadline = Some(self.time.after(self.setup.timeout));
            // There is room for two lines a job.
            let _ = input.try_send(protocol::go_line(id));
        }
    }

    /// What the process said before its guard ended. A handler that outlives its guard is not waited for.
    async fn last_lines(&mut self, begun: &mpsc::Sender<Begun>) -> End {
        while let Ok(line) = timeout(LAST_LINES_WITHIN, self.guarded.output.next()).await {
            if let Some(end) = self.read(line, begun) {
                return end;
            }
        }
        End::Exited
    }

    /// The deadline of a job has passed. What its process has said by now is read first.
    async fn read_late(&mut self, id: u64, begun: &mpsc::Sender<Begun>) -> Option<End> {
        let until = Instant::now() + READ_WITHIN;
        while self.jobs.get(&id).is_some_and(|job| job.deadline.is_some()) {
            match timeout_at(until, self.guarded.output.next()).await {
                Ok(line) => match self.read(line, begun) {
                    None => {}
                    end => return end,
                },
                Err(_) => return Some(End::Timeout(id)),
            }
        }
        None
    }

    /// Reads a line. Some are the end of the process.
    fn read(&mut self, line: Line, begun: &mpsc::Sender<Begun>) -> Option<End> {
        let (said, line) = match line {
            Line::End => return Some(End::Exited),
            Line::TooLong(line) => (protocol::read_too_long(&line), line),
            Line::Whole(line) => (protocol::read(&line), line),
        };
        match said {
            Ok(HandlerMessage::NotStarted(why)) => Some(End::NotStarted(why)),
            said => said.and_then(|said| self.hear(said, begun)).err().map(|why| End::Garbage(why, line)),
        }
    }

    fn hand_over(&mut self, assignment: Assignment, input: &mpsc::Sender<String>) {
        if self.jobs.contains_key(&assignment.task.job.id.get()) {
            self.busy.fetch_sub(1, Ordering::SeqCst);
            let _ = assignment.answer.send(crash("the process still works on an earlier claim of this job"));
            return;
        }
        match protocol::job_line(&assignment.task) {
            Ok(line) => {
                self.add(assignment);
                let _ = input.try_send(line);
            }
            Err(error) => {
                self.busy.fetch_sub(1, Ordering::SeqCst);
                let _ =
                    assignment.answer.send(Answer::dead(format!("the job cannot be handed over: {error}")));
            }
        }
    }

    fn add(&mut self, assignment: Assignment) {
        let deadline = Some(self.time.after(self.setup.timeout));
        let Assignment { task, answer } = assignment;
        let parts = Parts::default();
        self.jobs
            .insert(task.job.id.get(), Running { turn: task.turn, begins: false, parts, answer, deadline });
    }

    /// An error means that the handler broke the protocol.
    fn hear(&mut self, said: HandlerMessage, begun: &mpsc::Sender<Begun>) -> Result<(), String> {
        match said {
            HandlerMessage::Begin(id) => {
                let Some(job) = self.jobs.get_mut(&id) else {
                    return Err(format!("job {id} is none of its jobs"));
                };
                if std::mem::replace(&mut job.begins, true) {
                    return Err(format!("job {id} began twice"));
                }
                job.deadline = None;
                let (turn, begun) = (job.turn.clone(), begun.clone());
                tokio::spawn(async move {
                    let begins = turn.begin().await.map_err(|error| error.to_string());
                    // The process may have ended meanwhile.
                    let _ = begun.send((id, begins)).await;
                });
            }
            HandlerMessage::Part(id, part) => {
                let Some(job) = self.jobs.get_mut(&id) else {
                    return Err(format!("job {id} is none of its jobs"));
                };
                job.parts.add(part);
            }
            HandlerMessage::Answer(id, answer) => {
                let Some(mut job) = self.jobs.remove(&id) else {
                    return Err(format!("job {id} is none of its jobs"));
                };
                let answer = job.parts.complete(answer);
                self.answered = true;
                self.quick_deaths.store(0, Ordering::SeqCst);
                self.busy.fetch_sub(1, Ordering::SeqCst);
                // The runner may have given the job up.
                let _ = job.answer.send(answer.redacted(&self.setup.redactor));
            }
            // The end of the process, which `read` returns.
            HandlerMessage::NotStarted(_) => {}
        }
        Ok(())
    }

    /// Answers for the jobs that are left, now that the process is gone.
    fn conclude(mut self, end: &End, status: &str) {
        let quick = matches!(end, End::Exited) && !self.answered && self.started.elapsed() < QUICK_DEATH;
        let deaths = if quick { self.quick_deaths.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
        let redact = |text: &str| self.setup.redactor.redact(text);
        let redact_cut = |text: &str| self.setup.redactor.redact_cut(text);
        // Only the end is kept.
        let last_words = redact_cut(&self.guarded.last_words.text());
        let (error, detail) = match end {
            End::Exited => (ended(&self.setup, status), last_words),
            End::NotStarted(why) => (redact(why), String::new()),
            End::Garbage(error, line) => {
                let first = &line[..line.len().min(DETAIL_BYTES_MAX)];
                (
                    format!("the handler broke the protocol: {}", redact(error)),
                    redact_cut(&String::from_utf8_lossy(first)),
                )
            }
            End::Timeout(_) => {
                ("the handler's process was ended, because another job took too long".to_owned(), last_words)
            }
            End::CannotBegin(..) => (
                "the handler's process was ended, because another job could not begin".to_owned(),
                String::new(),
            ),
            End::Stopped => ("the handler's process was stopped".to_owned(), String::new()),
        };
        for (id, job) in self.jobs.drain() {
            let answer = match end {
                End::NotStarted(_) => Answer::Unreachable { error: error.clone(), detail: detail.clone() },
                End::Timeout(late) if *late == id => Answer::too_late(self.setup.timeout, detail.clone()),
                End::CannotBegin(waits, why) if *waits == id => {
                    Answer::retry(format!("the call could not begin: {why}"))
                }
                _ => Answer::Crash {
                    error: error.clone(),
                    detail: detail.clone(),
                    pause: deaths >= QUICK_DEATHS_MAX,
                },
            };
            let _ = job.answer.send(answer);
        }
    }
}

/// What is said of a process that ended. One that found no program is named, because its exit code alone says little.
fn ended(setup: &Setup, status: &str) -> String {
    match status == NOT_FOUND {
        true => format!("`{}` ended: {status}, as a shell does that cannot find a program", setup.program()),
        false => format!("the handler's process ended: {status}"),
    }
}

async fn write_lines(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() {
            // Its end is seen on its output.
            return;
        }
    }
}
