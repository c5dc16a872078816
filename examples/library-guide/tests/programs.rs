//! The programs run as the guide shows them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Command;

const GUIDE: &str = include_str!("../../../docs/guide/library.md");
const FROM_CONFIG: &str = include_str!("../src/bin/from-config.rs");

/// The text of a fenced block of the guide that begins with `first_line`.
fn block(first_line: &str) -> &'static str {
    let begin = GUIDE.find(&format!("```{first_line}")).unwrap();
    let text = GUIDE[begin..].split_once('\n').unwrap().1;
    text.split_once("```").unwrap().0
}

/// A program that returns the error of a config prints the message that points at the wrong word.
#[test]
fn main_that_returns_a_config_error_prints_the_pointing_message() {
    let (config, said) = block("console\n$ cat tollway.toml").split_once("$ cargo run\n").unwrap();
    let config = config.split_once('\n').unwrap().1;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("tollway.toml"), config).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_from-config")).current_dir(&folder).output().unwrap();
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), said);
    assert_eq!(ran.status.code(), Some(1));
    assert!(FROM_CONFIG.contains("Limiter::from_config(\"tollway.toml\").await?"));
}
