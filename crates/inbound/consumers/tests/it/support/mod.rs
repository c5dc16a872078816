//! Shared test helpers: short drafts, waiting with a timeout, and scenarios for every storage.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, unused_macros, unused_imports, reason = "no test uses all of it")]

pub(crate) mod counted;
pub(crate) mod scenarios;
pub(crate) mod writer;

use std::time::Duration;

use tokio::sync::watch;
use tollway_consumers::{Amounts, ConsumerId, Draft, Generation, Scope, Validity, read_date};

/// Long enough for a busy machine; only a failing test waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The output of a future; panics after `TIMEOUT`.
pub(crate) fn soon<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let in_time = runtime.block_on(async { tokio::time::timeout(TIMEOUT, future).await });
    in_time.unwrap_or_else(|_| panic!("no result within {TIMEOUT:?}"))
}

/// Waits until the generation satisfies the condition.
pub(crate) fn until(watch: &mut watch::Receiver<Generation>, is_so: impl FnMut(&Generation) -> bool) {
    soon(async { watch.wait_for(is_so).await.map(|_| ()) }).unwrap();
}

pub(crate) fn consumer(text: &str) -> ConsumerId {
    ConsumerId::new(text).unwrap()
}

pub(crate) fn validity(from: &str, to: &str) -> Validity {
    Validity::new(read_date(from).unwrap(), read_date(to).unwrap()).unwrap()
}

/// A draft for this many calls per minute in 2026.
pub(crate) fn draft(name: &str, minute: i64) -> Draft {
    Draft {
        consumer: consumer(name),
        scope: Scope::ALL,
        validity: validity("2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z"),
        amounts: Amounts::new([-1, minute, -1, -1, 0, 200_000]).unwrap(),
    }
}

pub(crate) fn for_api(draft: Draft, api: &str) -> Draft {
    Draft { scope: Scope::new(Some(api.to_owned()), None, None).unwrap(), ..draft }
}
