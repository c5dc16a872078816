//! Starts the processes, hands out texts, kills one process on the way, and hands its text to another.

use std::collections::VecDeque;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::worker::Translated;
use crate::{BoxError, say};

/// The processes.
pub(crate) const WORKERS: usize = 8;

/// Once so many texts are done, this process is killed; if it has no text, the next one that has.
const KILLED: usize = 2;
const KILLED_AFTER: usize = 3;

/// What a process did.
enum Event {
    Translated(usize, Translated),
    Ended(usize),
}

struct Worker {
    process: Child,
    texts: ChildStdin,
    /// The text it is working on.
    text: Option<usize>,
    ended: bool,
}

pub(crate) struct Coordinator {
    workers: Vec<Worker>,
    events: mpsc::Receiver<Event>,
}

/// What came of it.
#[derive(Default)]
pub(crate) struct Translation {
    pub(crate) texts: Vec<Translated>,
    /// The process that was killed, counted from 1, and the text that another one translated.
    pub(crate) killed: Option<(usize, usize)>,
}

impl Coordinator {
    pub(crate) fn start(config: &Path) -> Result<Self, BoxError> {
        let (sender, events) = mpsc::channel(WORKERS);
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            let mut process = Command::new(std::env::current_exe()?)
                .arg("worker")
                .arg(config)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let pipes = process.stdin.take().zip(process.stdout.take());
            let (texts, lines) = pipes.ok_or("a process has no pipes")?;
            tokio::spawn(listen(number, lines, sender.clone()));
            workers.push(Worker { process, texts, text: None, ended: false });
        }
        Ok(Self { workers, events })
    }

    /// Has all texts translated.
    pub(crate) async fn run(mut self, texts: usize) -> Result<Translation, BoxError> {
        let mut queue: VecDeque<usize> = (0..texts).collect();
        let mut done = Translation::default();
        while done.texts.len() < texts {
            self.hand_out(&mut queue).await?;
            match self.events.recv().await.ok_or("all processes have ended")? {
                Event::Translated(number, text) => {
                    self.workers[number].text = None;
                    done.texts.push(text);
                }
                Event::Ended(number) => {
                    let worker = &mut self.workers[number];
                    worker.ended = true;
                    let is_killed = done.killed.is_some_and(|(killed, _)| killed == number + 1);
                    if !is_killed {
                        return Err(format!("process {} has ended", number + 1).into());
                    }
                    queue.extend(worker.text.take());
                }
            }
            if done.texts.len() >= KILLED_AFTER && done.killed.is_none() {
                done.killed = self.kill().await?;
            }
        }
        Ok(done)
    }

    async fn hand_out(&mut self, queue: &mut VecDeque<usize>) -> Result<(), BoxError> {
        let idle = |worker: &&mut Worker| worker.text.is_none() && !worker.ended;
        for worker in self.workers.iter_mut().filter(idle) {
            let Some(text) = queue.pop_front() else { break };
            worker.texts.write_all(format!("{text}\n").as_bytes()).await?;
            worker.text = Some(text);
        }
        Ok(())
    }

    /// Kills a process in the middle of its work.
    async fn kill(&mut self) -> Result<Option<(usize, usize)>, BoxError> {
        let mut numbers = (0..WORKERS).map(|place| (KILLED + place) % WORKERS);
        let Some(number) = numbers.find(|number| self.workers[*number].text.is_some()) else {
            return Ok(None);
        };
        let worker = &mut self.workers[number];
        let Some(text) = worker.text else { return Ok(None) };
        worker.process.kill().await?;
        say(format_args!("process {} is killed; text {text} goes to another one", number + 1))?;
        Ok(Some((number + 1, text)))
    }
}

/// Passes on what a process writes.
async fn listen(number: usize, lines: ChildStdout, events: mpsc::Sender<Event>) {
    let mut lines = BufReader::new(lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(text) = serde_json::from_str(&line) else { break };
        let _ = events.send(Event::Translated(number, text)).await;
    }
    let _ = events.send(Event::Ended(number)).await;
}
