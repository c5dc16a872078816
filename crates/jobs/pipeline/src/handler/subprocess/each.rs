//! One process for each job: its exit code is its answer, unless it prints one.

use std::future::Future;

use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::guarded::Guarded;
use super::lines::Line;
use super::parts::Parts;
use super::protocol::{self, HandlerMessage};
use super::{Assignment, Setup, crash};
use crate::handler::own_time::within;
use crate::handler::{Answer, Task};

/// `EX_TEMPFAIL` and `EX_DATAERR` of `sysexits.h`.
const CODE_RETRY: i32 = 75;
const CODE_DEAD: i32 = 65;

/// Of a shell that cannot find a program.
const CODE_NOT_FOUND: i32 = 127;

/// Starts a process for a job.
pub(super) fn start(
    setup: Setup,
    assignment: Assignment,
    mut stop: watch::Receiver<()>,
) -> std::io::Result<impl Future<Output = ()> + Send> {
    let mut guarded = Guarded::start(&setup, true)?;
    Ok(async move {
        let Assignment { task, answer } = assignment;
        let work = work(&setup, &mut guarded, &task);
        let answered = tokio::select! {
            answered = within(setup.timeout, work) => answered.unwrap_or_else(|| {
                Answer::too_late(setup.timeout, String::new())
            }),
            _ = stop.changed() => crash("the handler's process was stopped"),
        };
        // The job is free for others only when its process is gone.
        guarded.end().await;
        let _ = answer.send(answered);
    })
}

async fn work(setup: &Setup, guarded: &mut Guarded, task: &Task) -> Answer {
    let line = match protocol::job_line(task) {
        Ok(line) => line,
        Err(error) => return Answer::dead(format!("the job cannot be handed over: {error}")),
    };
    // The pipe stays open: its end would tell the guard to end the handler.
    if let Some(stdin) = &mut guarded.stdin {
        let _ = stdin.write_all(line.as_bytes()).await;
    }
    let (mut parts, mut said) = (Parts::default(), None);
    loop {
        let line = match guarded.output.next().await {
            Line::End => break,
            Line::TooLong(line) => protocol::read_too_long(&line),
            Line::Whole(line) => protocol::read(&line),
        };
        match line {
            Ok(HandlerMessage::Part(id, part)) if id == task.job.id.get() => parts.add(part),
            Ok(HandlerMessage::Answer(id, answer)) if id == task.job.id.get() => said = Some(answer),
            Ok(HandlerMessage::NotStarted(error)) => {
                said = Some(Answer::Unreachable { error, detail: String::new() })
            }
            // What scripts print is no mistake here.
            _ => {}
        }
    }
    let code = guarded.wait().await.and_then(|status| status.code());
    if let Some(answer) = said {
        return parts.complete(answer).redacted(&setup.redactor);
    }
    let detail = setup.redactor.redact_cut(&guarded.last_words.text());
    match code {
        Some(0) => parts.complete(Answer::done()),
        Some(CODE_RETRY) => Answer::Retry { error: format!("exit code {CODE_RETRY}"), detail, after: None },
        Some(CODE_DEAD) => Answer::Dead { error: format!("exit code {CODE_DEAD}"), detail },
        Some(CODE_NOT_FOUND) => {
            let error = format!("`{}` found no program: exit code {CODE_NOT_FOUND}", setup.program());
            Answer::Crash { error, detail, pause: true }
        }
        Some(code @ ..=128) => Answer::Retry { error: format!("exit code {code}"), detail, after: None },
        Some(code) => Answer::Crash { error: format!("signal {}", code - 128), detail, pause: false },
        None => Answer::Crash { error: "its guard was killed".to_owned(), detail, pause: false },
    }
}
