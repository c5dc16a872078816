//! The history of limits, and what is left of it after a restart.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::LONG;
use crate::running::{Running, Setup};

/// The values of a limit, with their times.
fn known(server: &Running, what: &str) -> Vec<(u64, u64)> {
    let history = server.get("/v1/view/policies/a/history?span=1h").json();
    let (since, step) = (history["since"].as_u64().unwrap(), history["step_ms"].as_u64().unwrap());
    let values = history["limits"][0][what].as_array().cloned().unwrap_or_default();
    let known = values.iter().enumerate().filter_map(|(index, value): (usize, &Value)| {
        Some((since + step * u64::try_from(index).unwrap(), value.as_u64()?))
    });
    known.collect()
}

pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "never {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// P6: steps of five seconds are kept, also without a viewer, and beside a state file over a restart.
#[test]
fn the_history_is_kept_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let config =
        format!("[store]\nurl = 'file:{}'\n[policies.a]\nlimits = ['9 requests / hour']", state.display());
    let mut server = Running::of(&config);
    let since = server.live().state.since;
    // The file store is read while someone watches.
    let mut live = server.live();
    for _ in 0..3 {
        server.take("a", "");
    }
    let used = until("a step with its use", || {
        live.next();
        known(&server, "used").into_iter().find(|(_, used)| *used == 3)
    });
    let granted = known(&server, "granted");
    assert_eq!(granted.iter().map(|(_, granted)| granted).sum::<u64>(), 3, "{granted:?}");
    drop(live);
    server.stop();
    drop(server);
    assert!(state.with_extension("history").exists(), "beside the state file");
    let server = Running::of(&config);
    assert!(known(&server, "used").contains(&used), "{:?} has not {used:?}", known(&server, "used"));
    assert_eq!(server.live().state.since, since, "it says since when it knows");
}

/// P6: a process that only looks reads the file of those that do the work, and leaves it as it is.
#[test]
fn a_process_that_only_looks_writes_no_history() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let config =
        format!("[store]\nurl = 'file:{}'\n[policies.a]\nlimits = ['9 requests / hour']", state.display());
    let history = state.with_extension("history");
    for (only_looks, written) in [(true, false), (false, true)] {
        let mut server = Setup::of(&config).start_with(move |builder| match only_looks {
            true => builder.of_store(),
            false => builder,
        });
        server.take("a", "");
        server.stop();
        assert_eq!(history.exists(), written, "only looks: {only_looks}");
    }
}

/// P6: a history without a file begins with the process, and says so.
#[test]
fn without_a_file_it_begins_anew() {
    let mut server = Setup::of("[policies.a]\nlimits = ['9 requests / hour']").start();
    server.take("a", "");
    until("a step", || known(&server, "granted").into_iter().find(|(_, granted)| *granted == 1));
    assert!(!known(&server, "used").is_empty(), "a store in this process is read without a viewer, too");
    let day = server.get("/v1/view/policies/a/history?span=24h").json();
    assert_eq!(
        (&day["step_ms"], day["limits"][0]["used"].as_array().unwrap().len()),
        (&60_000.into(), 1_440)
    );
    assert_eq!(server.get("/v1/view/policies/a/history?span=1w").status, 400);
    server.stop();
}
