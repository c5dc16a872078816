//! `deploy/`: what the command generates is what is committed, alerts fire and clear, and manifests hold what the page says.
//!
//! `UPDATE_GOLDEN=1` rewrites the generated files.

mod alerts;
mod generated;
mod manifests;

use std::path::PathBuf;

/// A file of `deploy/`.
fn file(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy")).join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(file(path)).unwrap_or_else(|error| panic!("deploy/{path}: {error}"))
}
