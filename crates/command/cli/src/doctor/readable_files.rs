//! Files of subjects, jobs and records that other users of this machine can read.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollway::StoreUrl;
use tollway_consumers::RecordsUrl;

use super::finding::{Finding, Findings, NAMED_MAX};
use crate::context::WholeConfig;
use crate::shell::shell_word_or_dots;

/// What SQLite and the pipeline keep beside a database.
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", "-owner"];

/// The bits of a mode that let the group and others read.
const OTHERS_READ: u32 = 0o044;

pub(super) fn look_at(config: &WholeConfig, store: Option<&StoreUrl>, findings: &mut Findings) {
    findings.findings.extend(finding(&readable(&files(config, store))));
}

/// The files that a process with this config makes.
fn files(config: &WholeConfig, store: Option<&StoreUrl>) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    if let Some(StoreUrl::File(path)) = store {
        files.push(path.clone());
    }
    files.extend(config.limits().incidents().file_to_read(store));
    if let Some(RecordsUrl::Sqlite(path)) = config.consumers().map(|consumers| &consumers.records) {
        files.extend(database(path));
    }
    #[cfg(feature = "pipeline")]
    for pipeline in config.pipelines() {
        if let tollway_pipeline::EngineUrl::Sqlite(path) = &pipeline.engine {
            files.extend(database(path));
        }
    }
    // Pipelines may share a file.
    files.sort();
    files.dedup();
    files
}

fn database(path: &Path) -> impl Iterator<Item = PathBuf> {
    let beside = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    [""].into_iter().chain(BESIDE).map(beside)
}

/// Those that exist and that others can read, with their modes.
fn readable(files: &[PathBuf]) -> Vec<(&Path, u32)> {
    let mode = |path: &Path| path.metadata().ok().map(|file| file.permissions().mode() & 0o777);
    let modes = files.iter().filter_map(|path| Some((path.as_path(), mode(path)?)));
    modes.filter(|(_, mode)| mode & OTHERS_READ != 0).collect()
}

fn finding(readable: &[(&Path, u32)]) -> Option<Finding> {
    let listed = readable.iter().take(NAMED_MAX);
    let names: Vec<String> = listed.map(|(path, mode)| format!("{} ({mode:04o})", path.display())).collect();
    let more = if readable.len() > NAMED_MAX { ", ..." } else { "" };
    let words: Vec<_> =
        readable.iter().map(|(path, _)| shell_word_or_dots(&path.to_string_lossy())).collect();
    (!readable.is_empty()).then(|| {
        Finding::note(
            "readable-by-others",
            format!("other users can read {}{more}", names.join(", ")),
            "subjects, jobs, their errors and the records of consumers are in them. New files are private; these were made \
             before, or their mode was changed",
            format!("run `chmod go-rwx {}`, unless it is meant so", words.join(" ")),
        )
    })
}
