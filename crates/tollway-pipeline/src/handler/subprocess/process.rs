//! One long-lived process and its jobs.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::lines::{LastWords, Line, Lines};
use super::protocol::{self, Said};
use super::{Assignment, QUICK_DEATHS_MAX, Setup, crash};
use crate::bounds::DETAIL_BYTES_MAX;
use crate::handler::guard::TERMINATE_WITHIN;
use crate::handler::{Answer, Turn};

/// A process that ends sooner than this without an answer died at once.
const QUICK_DEATH: Duration = Duration::from_secs(5);

/// How long the last lines of a process are waited for after its guard has ended.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(1);

/// Variables that nearly every program needs, and that are no secrets.
const ENV_ALWAYS: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV"];

/// A process with its guard.
pub(super) struct Process {
    setup: Setup,
    guarded: Guarded,
    jobs: HashMap<u64, Running>,
    busy: Arc<AtomicUsize>,
    quick_deaths: Arc<AtomicU32>,
    stop: watch::Receiver<()>,
    started: Instant,
    answered: bool,
}

/// A job that the process works on.
struct Running {
    turn: Turn,
    /// It has said that it begins: once is enough.
    begins: bool,
    answer: oneshot::Sender<Answer>,
    /// None while it waits for its go: that is the vendor's time, not the handler's.
    deadline: Option<Instant>,
}

/// A job that asked to begin, and why it may not.
type Begun = (u64, Result<(), String>);

/// Why a process is over.
enum End {
    /// It ended by itself.
    Exited,
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
        let (jobs, started) = (HashMap::new(), Instant::now());
        Ok(Self { setup, guarded, jobs, busy, quick_deaths, stop, started, answered: false })
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
            let deadline = async {
                match next_deadline {
                    Some((at, id)) => {
                        sleep_until(at).await;
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
                line = self.guarded.output.next() => match line {
                    Line::End => return End::Exited,
                    Line::TooLong(line) => return End::Garbage("a line over 1 MiB".to_owned(), line),
                    Line::Whole(line) => match protocol::read(&line).and_then(|said| self.hear(said, &begun)) {
                        Ok(()) => {}
                        Err(error) => return End::Garbage(error, line),
                    },
                },
                Some((id, begins)) = begins.recv() => match begins {
                    Ok(()) => self.go(id, input),
                    Err(error) => return End::CannotBegin(id, error),
                },
                id = deadline => return End::Timeout(id),
                _ = self.stop.changed() => return End::Stopped,
                _ = self.guarded.child.wait() => return self.last_lines(&begun).await,
            }
        }
    }

    fn go(&mut self, id: u64, input: &mpsc::Sender<String>) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.deadline = Some(Instant::now() + self.setup.timeout.into());
            // There is room for two lines a job.
            let _ = input.try_send(protocol::go_line(id));
        }
    }

    /// What the process said before its guard ended. A handler that outlives its guard is not waited for.
    async fn last_lines(&mut self, begun: &mpsc::Sender<Begun>) -> End {
        while let Ok(Line::Whole(line)) = timeout(LAST_LINES_WITHIN, self.guarded.output.next()).await {
            if let Err(error) = protocol::read(&line).and_then(|said| self.hear(said, begun)) {
                return End::Garbage(error, line);
            }
        }
        End::Exited
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
        let deadline = Some(Instant::now() + self.setup.timeout.into());
        let Assignment { task, answer } = assignment;
        self.jobs.insert(task.job.id.get(), Running { turn: task.turn, begins: false, answer, deadline });
    }

    /// An error means that the handler broke the protocol.
    fn hear(&mut self, said: Said, begun: &mpsc::Sender<Begun>) -> Result<(), String> {
        match said {
            Said::Begin(id) => {
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
            Said::Answer(id, answer) => {
                let Some(job) = self.jobs.remove(&id) else {
                    return Err(format!("job {id} is none of its jobs"));
                };
                self.answered = true;
                self.quick_deaths.store(0, Ordering::SeqCst);
                self.busy.fetch_sub(1, Ordering::SeqCst);
                // The runner may have given the job up.
                let _ = job.answer.send(answer.redacted(&self.setup.redactor));
            }
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
            End::Exited => (format!("the handler's process ended: {status}"), last_words),
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
                End::Timeout(late) if *late == id => Answer::Retry {
                    error: format!("no answer within {}", self.setup.timeout),
                    detail: detail.clone(),
                    after: None,
                },
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

async fn write_lines(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() {
            // Its end is seen on its output.
            return;
        }
    }
}

/// A guard and the handler behind it.
pub(super) struct Guarded {
    child: Child,
    /// Closing it ends the handler.
    pub(super) stdin: Option<ChildStdin>,
    pub(super) output: Lines<ChildStdout>,
    pub(super) last_words: LastWords,
    reading: tokio::task::JoinHandle<()>,
}

impl Guarded {
    pub(super) fn start(setup: &Setup, each: bool) -> std::io::Result<Self> {
        let config = &setup.command;
        let mut command = Command::new(&setup.guard.program);
        command
            .args(setup.guard.arguments(&config.command, config.memory_max, each))
            .current_dir(&config.folder)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in a terminal is for the pipeline, which drains.
            .process_group(0);
        let allowed = ENV_ALWAYS.iter().copied().chain(config.env.iter().map(String::as_str));
        command.envs(allowed.filter_map(|name| Some((name, std::env::var_os(name)?))));
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a new process has no pipes");
        let stdin = child.stdin.take();
        let output = Lines::new(child.stdout.take().ok_or_else(missing)?);
        let (last_words, reading) = LastWords::of(child.stderr.take().ok_or_else(missing)?);
        Ok(Self { child, stdin, output, last_words, reading })
    }

    /// Closes its input, waits until guard and handler are gone, and says how they ended.
    pub(super) async fn end(&mut self) -> String {
        drop(self.stdin.take());
        let status = self.exited().await;
        // The last words are complete when the pipe is closed.
        let _ = timeout(Duration::from_millis(200), &mut self.reading).await;
        match status.and_then(|status| status.code()) {
            Some(code @ 129..) => format!("signal {}", code - 128),
            Some(code) => format!("exit code {code}"),
            None => "its guard was killed".to_owned(),
        }
    }

    /// Waits for the guard, and kills it if it does not end.
    pub(super) async fn exited(&mut self) -> Option<std::process::ExitStatus> {
        match timeout(TERMINATE_WITHIN * 2, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = self.child.kill().await;
                None
            }
        }
    }

    /// Waits until it ends by itself.
    pub(super) async fn wait(&mut self) -> Option<std::process::ExitStatus> {
        self.child.wait().await.ok()
    }
}
