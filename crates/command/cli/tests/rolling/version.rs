//! The two versions, as commands in one folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// The program of the earlier version.
const OLD: &str = "TOLLWAY_OLD";

/// Longer than anything here takes on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// A version of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Old,
    New,
}

pub(crate) const BOTH: [Version; 2] = [Version::Old, Version::New];

impl Version {
    fn program(self) -> PathBuf {
        match self {
            Self::Old => {
                let set = format!(
                    "set {OLD} to the command of the earlier version; scripts/rolling-upgrade builds it"
                );
                std::env::var_os(OLD).unwrap_or_else(|| panic!("{set}")).into()
            }
            Self::New => env!("CARGO_BIN_EXE_tollway").into(),
        }
    }

    pub(crate) fn other(self) -> Self {
        if self == Self::Old { Self::New } else { Self::Old }
    }
}

/// A folder with a config, in which both versions run.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(config: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        home.write("tollway.toml", config);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn command(&self, version: Version, arguments: &[&str]) -> Command {
        let mut command = Command::new(version.program());
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("HOME", self.0.path())
            .env_remove("TOLLWAY_CONFIG");
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, version: Version, arguments: &[&str]) -> Output {
        self.command(version, arguments).output().unwrap()
    }

    /// Runs it until it succeeds: a process that was killed a moment ago may still hold the other end of a socket.
    pub(crate) fn json(&self, version: Version, arguments: &[&str]) -> serde_json::Value {
        let mut output = None;
        wait_until(&format!("{version:?} {arguments:?} succeeds"), || {
            let ran = self.run(version, arguments);
            let succeeded = ran.status.success();
            output = Some(ran);
            succeeded
        });
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    }

    /// Starts it in the background. What it says on standard error is in a file with this name.
    pub(crate) fn start(&self, version: Version, arguments: &[&str], log: &str) -> Running {
        let log = self.path(log);
        let mut command = self.command(version, arguments);
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        Running { version, child: command.spawn().unwrap(), log }
    }
}

/// A command that runs. Dropping it kills it.
pub(crate) struct Running {
    pub(crate) version: Version,
    pub(crate) child: Child,
    log: PathBuf,
}

impl Running {
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        read(&self.log)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this is how a version says that it cannot work with what another one wrote.
pub(crate) fn is_refusal(said: &str) -> bool {
    said.contains("version") && (said.contains("newer Tollway") || said.contains("older Tollway"))
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let deadline = now() + WAIT_MAX;
    while !condition() {
        assert!(now() < deadline, "not within {WAIT_MAX:?}: {what}");
        std::thread::sleep(LOOKS_EVERY);
    }
}
