//! The quickstart runs as it stands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn quickstart_runs() {
    let ran = Command::new(env!("CARGO_BIN_EXE_quickstart")).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(!ran.stdout.is_empty());
}
