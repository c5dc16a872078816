//! Running the command as a user would: in a folder of its own, with nothing of the developer's machine in reach.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A user's home and working folder.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// An empty one.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// One with this `tollway.toml`.
    pub fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write("tollway.toml", text);
        home
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The command, in the working folder, in UTC, with no variable of ours or the terminal's set.
    pub fn tollway(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
        command.current_dir(self.path()).env("HOME", self.path()).env("TZ", "UTC");
        for variable in
            ["XDG_STATE_HOME", "TOLLWAY_CONFIG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"]
        {
            command.env_remove(variable);
        }
        command.args(arguments);
        command
    }

    /// Runs it and answers its exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.tollway(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }
}

/// Compares with `tests/golden/NAME`; `UPDATE_GOLDEN=1` writes it instead, to be read before it is committed.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(text == expected, "{name} differs from what is expected\n--- expected\n{expected}\n--- got\n{text}");
}
