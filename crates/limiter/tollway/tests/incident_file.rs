//! The file of incidents: several processes write one, and a file that cannot be written is said once. The processes are
//! this test itself, started again as writers.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

#[path = "it/heard.rs"]
mod heard;

use std::collections::HashSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use heard::Heard;
use tollway::Limiter;
use tollway::incident::{FILE_INCIDENTS_MAX, IncidentFile};
use tollway::metrics::prometheus_text;

/// What tells a writer from the test: the folder of its config.
const WRITER: &str = "TOLLWAY_TEST_INCIDENTS_IN";

/// Four processes write more than the file holds, so that they also drop incidents while the others append.
const PROCESSES: usize = 4;
const INCIDENTS_EACH: usize = 300;

fn write_config(folder: &Path, incidents: &str) {
    let policy = "policies.gemini.limits = ['1M requests / minute']\n";
    std::fs::write(folder.join("tollway.toml"), format!("{policy}{incidents}")).unwrap();
}

fn refuse(folder: &Path, count: usize) -> Limiter {
    let limiter = Limiter::from_config_blocking(folder.join("tollway.toml")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for number in 0..count {
        let permit = limiter.take("gemini").wait().unwrap();
        runtime.block_on(permit.refused_by_vendor(&number.to_string()));
        limiter.close().now().unwrap();
    }
    limiter
}

/// Not a test: what the processes do.
#[test]
fn writer() {
    let Ok(folder) = std::env::var(WRITER) else { return };
    drop(refuse(Path::new(&folder), INCIDENTS_EACH));
}

/// G11: no incident of one process is lost by another, but for the oldest ones.
#[test]
fn processes_share_one_file() {
    let folder = tempfile::tempdir().unwrap();
    write_config(folder.path(), "incidents.file = 'incidents.jsonl'");
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "writer"]).env(WRITER, folder.path()).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let path = folder.path().join("incidents.jsonl");
    let kept = IncidentFile::at(&path).read().unwrap();
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(kept.len(), lines, "every line is whole");
    let ids: HashSet<&str> = kept.iter().map(|incident| incident.id.as_str()).collect();
    assert_eq!(ids.len(), kept.len(), "every incident is there once");
    // One rewrite drops the oldest quarter and one; afterwards all are appended.
    let all = PROCESSES * INCIDENTS_EACH;
    assert_eq!(kept.len(), all - (FILE_INCIDENTS_MAX + 1 - FILE_INCIDENTS_MAX / 4 * 3));
}

/// The call goes on, the operator is told once, and the metrics count.
#[test]
fn unwritable_file_is_said_once_and_costs_no_call() {
    let heard = Heard::default();
    // Also for the thread that writes.
    tracing::subscriber::set_global_default(heard.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes.txt");
    std::fs::write(&notes, "not incidents\n").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for setting in ["notes.txt", "notes.txt/below"] {
        write_config(folder.path(), &format!("incidents.file = '{setting}'"));
        let limiter = refuse(folder.path(), 3);
        let text = prometheus_text(&runtime.block_on(limiter.samples()));
        assert!(text.contains("tollway_incidents_total{policy=\"gemini\"} 3"), "{text}");
        assert!(text.contains("tollway_incidents_dropped_total{sink=\"file\"} 3"), "{text}");
        assert_eq!(limiter.incidents().len(), 3);
        let path = folder.path().join(setting).display().to_string();
        assert_eq!(heard.count(&format!("path={path} ")), 1, "{setting}");
    }
    assert_eq!(std::fs::read_to_string(notes).unwrap(), "not incidents\n", "another file stays as it is");
    write_config(folder.path(), "incidents.file = 'off'");
    let limiter = refuse(folder.path(), 1);
    assert!(!prometheus_text(&runtime.block_on(limiter.samples())).contains("sink="));
    assert_eq!(heard.count("incidents cannot be written"), 2);
}
