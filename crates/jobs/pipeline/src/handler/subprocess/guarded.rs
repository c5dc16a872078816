//! A guard and the handler behind it, as a child of this process.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::Setup;
use super::lines::{LastWords, Lines};
use crate::handler::guard::TERMINATE_WITHIN;

/// Variables that nearly every program needs, and that are no secrets.
const ENV_ALWAYS: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV"];

/// A guard and the handler behind it.
pub(super) struct Guarded {
    pub(super) child: Child,
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
    pub(super) async fn exited(&mut self) -> Option<ExitStatus> {
        match timeout(TERMINATE_WITHIN * 2, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = self.child.kill().await;
                None
            }
        }
    }

    /// Waits until it ends by itself.
    pub(super) async fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }
}
