//! A worker process: reads jobs from standard input, calls the vendor for each, and says what came of it.
//!
//! Under Tollway it asks before each call and leaves a refused job to the pipeline. Alone it calls at once, and calls again
//! until the vendor accepts.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use super::documents::{STAGES, stage_index};
use super::http::{Head, RETRY_AFTER, WORKER};
use super::protocol::{Input, Job, Output, WorkerMessage};
use crate::failure::{Exit, Failure};

/// Timeout for a call to the vendor.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a worker without Tollway does when the vendor refuses a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AfterRefusal {
    /// Call again at once.
    AtOnce,
    /// Wait as long as the vendor's Retry-After says, then call again.
    RetryAfter,
}

/// Works until its standard input closes. `alone` says what to do about refusals; without it, the worker asks Tollway
/// before each call. Its process id becomes the name of a file in `folder`.
pub(super) fn work(folder: &Path, vendor: SocketAddr, alone: Option<AfterRefusal>) -> Result<Exit, Failure> {
    let cannot =
        |what: &str, error: io::Error| Failure::new(Exit::FAILED, format!("a worker cannot {what}: {error}"));
    let pid = std::process::id();
    fs::write(folder.join(pid.to_string()), "").map_err(|error| cannot("register", error))?;
    let lines = standard_input().map_err(|error| cannot("start a thread", error))?;
    while let Some(input) = next(&lines)? {
        let Input::Job(job) = input else { return Err(unexpected()) };
        if alone.is_none() {
            say(&WorkerMessage::Begin { begin: job.id })?;
            let Some(Input::Go(_)) = next(&lines)? else { return Err(unexpected()) };
        }
        say(&answer(&job, vendor, pid, alone))?;
    }
    Ok(Exit::DONE)
}

/// Does a job.
fn answer(job: &Job, vendor: SocketAddr, pid: u32, alone: Option<AfterRefusal>) -> WorkerMessage {
    let after = loop {
        match (call(vendor, job, pid), alone) {
            (Ok(None), _) => return finish(job),
            (Err(error), _) => {
                return WorkerMessage::Retry { retry: job.id, error: format!("the vendor: {error}") };
            }
            (Ok(Some(after)), None) => break after,
            (Ok(Some(_)), Some(AfterRefusal::AtOnce)) => {}
            (Ok(Some(after)), Some(AfterRefusal::RetryAfter)) => thread::sleep(Duration::from_secs(after)),
        }
    };
    WorkerMessage::RateLimited { rate_limited: job.id, after }
}

/// What the job becomes after its call. The last stage needs data that it can read.
fn finish(job: &Job) -> WorkerMessage {
    if stage_index(&job.stage) != Some(STAGES.len() - 1) {
        return WorkerMessage::Done { done: job.id, outputs: vec![Output { data: job.data.clone() }] };
    }
    match job.data.fault() {
        Some(error) => WorkerMessage::Retry { retry: job.id, error },
        None => WorkerMessage::Done { done: job.id, outputs: Vec::new() },
    }
}

/// One call. Returns the vendor's `Retry-After` if it refused.
fn call(vendor: SocketAddr, job: &Job, pid: u32) -> io::Result<Option<u64>> {
    let mut stream = TcpStream::connect_timeout(&vendor, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let (stage, document) = (&job.stage, &job.data.document);
    let request = format!(
        "POST /{stage}/{document} HTTP/1.1\r\nHost: {vendor}\r\n{WORKER}: {pid}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let head = Head::read(BufReader::new(&stream))?;
    match head.word(1) {
        "200" => Ok(None),
        "429" => Ok(Some(head.number(RETRY_AFTER).unwrap_or(1))),
        status => Err(io::Error::other(format!("it answered {status:?}"))),
    }
}

fn say(said: &WorkerMessage) -> Result<(), Failure> {
    let text = serde_json::to_string(said).map_err(io::Error::from)?;
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}

fn next(lines: &Receiver<String>) -> Result<Option<Input>, Failure> {
    let Ok(line) = lines.recv() else { return Ok(None) };
    serde_json::from_str(&line).map(Some).map_err(|_| unexpected())
}

fn unexpected() -> Failure {
    Failure::new(Exit::DATA, "a worker got a line that is not the protocol's")
}

/// The lines of standard input. The parent holds its other end, which closes when the parent ends for any reason: then this
/// process ends, also in the middle of a call.
fn standard_input() -> io::Result<Receiver<String>> {
    let (sender, lines) = sync_channel(1);
    let read = move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    };
    thread::Builder::new().name("standard input".to_owned()).spawn(read)?;
    Ok(lines)
}
