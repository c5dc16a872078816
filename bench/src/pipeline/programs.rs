//! The programs that the group starts: the command `tollway`, and the other queues.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Where the other queues are built, in a workspace of their own.
const RIVALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/queues/target/release/queue-rivals");
/// Its path, if it is built elsewhere.
const PLACE_OF_RIVALS: &str = "QUEUE_RIVALS";

pub(super) struct Programs {
    pub(super) bench: PathBuf,
    pub(super) tollway: PathBuf,
    pub(super) rivals: PathBuf,
}

pub(super) fn find() -> Result<Programs> {
    let bench = std::env::current_exe().context("this program's own path")?;
    let tollway = bench.with_file_name("tollway");
    let rivals = std::env::var_os(PLACE_OF_RIVALS).map_or(PathBuf::from(RIVALS), PathBuf::from);
    there(&tollway, "cargo build --profile dist -p tollway-cli")?;
    there(&rivals, "cargo build --release --manifest-path bench/queues/Cargo.toml")?;
    Ok(Programs { bench, tollway, rivals })
}

fn there(program: &Path, build: &str) -> Result<()> {
    ensure!(program.is_file(), "{} is not built; {build}", program.display());
    Ok(())
}
