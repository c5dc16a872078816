//! One process for each job: its exit code is its answer, unless it prints one.

use std::future::Future;

use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::lines::Line;
use super::process::Guarded;
use super::protocol::{self, Said};
use super::{Assignment, Setup, crash};
use crate::handler::{Answer, Task};

/// `EX_TEMPFAIL` and `EX_DATAERR` of `sysexits.h`.
const CODE_RETRY: i32 = 75;
const CODE_DEAD: i32 = 65;

/// Of shells and of the guard.
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
            answered = tokio::time::timeout(setup.timeout.into(), work) => answered.unwrap_or_else(|_| {
                Answer::retry(format!("no answer within {}", setup.timeout))
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
    let mut said = None;
    loop {
        match guarded.output.next().await {
            Line::End => break,
            // What scripts print is no mistake here.
            Line::TooLong(_) => {}
            Line::Whole(line) => {
                if let Ok(Said::Answer(id, answer)) = protocol::read(&line)
                    && id == task.job.id.get()
                {
                    said = Some(answer);
                }
            }
        }
    }
    let code = guarded.wait().await.and_then(|status| status.code());
    if let Some(answer) = said {
        return answer.redacted(&setup.redactor);
    }
    let detail = setup.redactor.redact_cut(&guarded.last_words.text());
    match code {
        Some(0) => Answer::done(),
        Some(CODE_RETRY) => Answer::Retry { error: format!("exit code {CODE_RETRY}"), detail, after: None },
        Some(CODE_DEAD) => Answer::Dead { error: format!("exit code {CODE_DEAD}"), detail },
        Some(CODE_NOT_FOUND) => {
            Answer::Crash { error: "the command cannot be started".to_owned(), detail, pause: true }
        }
        Some(code @ ..=128) => Answer::Retry { error: format!("exit code {code}"), detail, after: None },
        Some(code) => Answer::Crash { error: format!("signal {}", code - 128), detail, pause: false },
        None => Answer::Crash { error: "its guard was killed".to_owned(), detail, pause: false },
    }
}
