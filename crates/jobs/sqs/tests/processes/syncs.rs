//! Which calls wait for the disk, as strace sees it: no answer of an enqueue or a completion comes before a sync.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tollway_core::{Span, Timestamp};
use tollway_pipeline::{ClaimRequest, Conclusion, Engine, NewJob, Output, SqliteEngine};

use crate::stage;

/// The file of the process that is traced.
const FILE: &str = "TOLLWAY_TEST_SYNCS";
/// Calls of each kind, one after the other.
const CALLS: usize = 20;
/// Callers at a time.
const CALLERS: usize = 8;

const NOW: Timestamp = Timestamp::from_secs(1_000);

/// Not a test of its own: the process that is traced. It says when it asks, and when it was answered.
#[test]
fn traced() {
    let Some(file) = std::env::var_os(FILE).map(PathBuf::from) else { return };
    let engine = Arc::new(SqliteEngine::open(&file).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for n in 0..CALLS {
            enqueue(&engine, format!("serial-{n}")).await;
            say(&format!("asks claim {n}"));
            let request = ClaimRequest::new(&stage("a"), "w", Span::from_mins(15));
            let claimed = engine.claim(request, NOW).await.unwrap().remove(0);
            say(&format!("answered claim {n}"));
            let outputs = vec![Output::new(&stage("b"), "1").unwrap()];
            say(&format!("asks finish {n}"));
            engine.finish(claimed.claim, Conclusion::Done { outputs, result: None }, NOW).await.unwrap();
            say(&format!("answered finish {n}"));
        }
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for n in 0..CALLS {
                        enqueue(&engine, format!("shared-{caller}-{n}")).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

async fn enqueue(engine: &SqliteEngine, key: String) {
    let job = NewJob::new(&stage("a"), &key, "{}").unwrap();
    // Claimed before jobs that came earlier.
    let job = if key.starts_with("serial") { job.priority(1) } else { job };
    say(&format!("asks enqueue {key}"));
    engine.enqueue(vec![job], NOW).await.unwrap();
    say(&format!("answered enqueue {key}"));
}

/// One write, which strace sees.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// What happened in the traced process, in order.
#[derive(Debug, PartialEq)]
enum Event {
    Asks(String),
    Answered(String),
    /// The write-ahead log was written.
    Written,
    /// It was synced.
    Synced,
}

/// P4: an acknowledged job survives a power cut.
#[test]
fn no_enqueue_and_no_completion_is_answered_before_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-y", "-s", "100", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "syncs::traced", "--nocapture", "--test-threads=1"])
        .env(FILE, folder.path().join("jobs.db"))
        .output()
        .unwrap_or_else(|error| {
            panic!("this test needs strace; install it: apt-get install strace ({error})")
        });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "strace needs the right to trace, SYS_PTRACE in a container: {said}");
    let events = read(&std::fs::read_to_string(&trace).unwrap());

    let (mut syncs, mut unsynced_claims) = (0, 0);
    let mut asked: HashMap<&str, usize> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        match event {
            Event::Asks(call) => drop(asked.insert(call, place)),
            Event::Answered(call) => {
                let during = &events[asked[call.as_str()]..place];
                let synced = during.iter().rposition(|event| *event == Event::Synced);
                if call.starts_with("claim ") {
                    unsynced_claims += usize::from(synced.is_none());
                    continue;
                }
                let Some(synced) = synced else { panic!("{call} was answered without a sync: {during:?}") };
                let written = during.iter().rposition(|event| *event == Event::Written);
                let shared = call.starts_with("enqueue shared");
                assert!(shared || written.is_some_and(|written| written < synced), "{call}: {during:?}");
            }
            Event::Synced => syncs += 1,
            Event::Written => {}
        }
    }
    let acknowledged = 2 * CALLS + CALLERS * CALLS;
    println!("{acknowledged} answers, {syncs} syncs; {unsynced_claims} of {CALLS} claims without one");
    assert_eq!(asked.len(), acknowledged + CALLS);
    // What the trace shows if a call does not wait for the disk.
    assert!(unsynced_claims > 0, "claims need not survive a power cut");
    assert!(syncs < acknowledged, "callers at the same time share a sync");
}

/// The events of a trace. A call that another thread interrupts has two lines; it is over at the second.
fn read(trace: &str) -> Vec<Event> {
    let (mut events, mut unfinished) = (Vec::new(), HashMap::<&str, &str>::new());
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let begins = !call.starts_with("<...");
        // An answer is known when it is about to be written, a question when it has been.
        if begins && let Some(what) = between(call, "\"answered ", "\\n\"") {
            events.push(Event::Answered(what.to_owned()));
        }
        if call.ends_with("<unfinished ...>") {
            unfinished.insert(thread, call);
            continue;
        }
        let whole = if begins { call } else { unfinished.remove(thread).unwrap_or_default() };
        if let Some(what) = between(whole, "\"asks ", "\\n\"") {
            events.push(Event::Asks(what.to_owned()));
        } else if whole.contains("jobs.db-wal>") {
            match whole.starts_with("pwrite64") || whole.starts_with("write") {
                true => events.push(Event::Written),
                false => {
                    assert!(call.ends_with("= 0"), "a sync failed: {call}");
                    events.push(Event::Synced);
                }
            }
        }
    }
    events
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let from = text.find(start)? + start.len();
    text[from..].find(end).map(|length| &text[from..from + length])
}
