//! Runs the command as a user would: in its own folder, isolated from the developer's machine.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses a part of it"
)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// A user's home and working folder.
pub struct Home {
    folder: TempDir,
}

impl Home {
    /// An empty home.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A home with this `tollway.toml`.
    pub fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write("tollway.toml", text);
        home
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The command, in the working folder, in UTC, without variables of Tollway or the terminal.
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

    /// Runs it; returns its exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.tollway(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }
}

/// Compares with `tests/golden/NAME`; `UPDATE_GOLDEN=1` writes the file instead, for review before the commit.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        text == expected,
        "{name} differs from what is expected\n--- expected\n{expected}\n--- got\n{text}"
    );
}

/// The text with every time and duration masked, so that it can be compared.
pub fn mask_times(text: &str) -> String {
    let masked: Vec<String> = text.lines().map(mask_line).collect();
    let mut masked = masked.join("\n");
    masked.push('\n');
    masked
}

/// `in 1 h 19 min (08:00:00)` becomes `in T (T)`; `at Mon 2026-11-16 00:00:00` becomes `at T`.
fn mask_line(line: &str) -> String {
    const UNITS: [&str; 5] = ["ms", "s", "min", "h", "d"];
    let mut words: Vec<String> = Vec::new();
    let mut pending: Option<String> = None;
    for word in line.split(' ') {
        let bare = word.trim_matches(|c: char| "(),;".contains(c));
        let is_number = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_digit() || c == '.');
        let is_unit = UNITS.contains(&bare);
        let is_clock = bare.len() == 8 && bare.chars().filter(|c| *c == ':').count() == 2;
        let is_date = bare.len() == 10 && bare.chars().filter(|c| *c == '-').count() == 2;
        let is_day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&bare);
        match pending.take() {
            Some(_) if is_unit => {
                words.push(word.replace(bare, "T"));
                continue;
            }
            Some(number) => words.push(number),
            None => {}
        }
        if is_number {
            pending = Some(word.to_owned());
        } else if is_clock || is_date || is_day {
            words.push(word.replace(bare, "T"));
        } else {
            words.push(word.to_owned());
        }
    }
    words.extend(pending);
    let mut line = words.join(" ");
    while line.contains("T T") || line.contains("T (T T") {
        line = line.replace("T T", "T");
    }
    line
}
