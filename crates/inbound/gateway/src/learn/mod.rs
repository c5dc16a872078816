//! Watching instead of limiting: what the answers of vendors and the traffic say about their limits.
//!
//! `watched_body` reads answers along while they pass, `seen` is what is kept of each api, `report` writes it as a section of
//! a config, with the evidence for each line.

mod report;
mod seen;
mod watched_body;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode};
use tollway::config::Api;
use tollway::{Clock, Timestamp};
use tollway_dialects::Dialect;

use seen::Seen;
use watched_body::WatchedBody;

/// What was seen of every api since the start.
pub(crate) struct Learner {
    clock: Arc<dyn Clock>,
    apis: Mutex<BTreeMap<String, (Arc<Api>, Seen)>>,
}

/// A call that is in flight until it is dropped.
pub(crate) struct Watched {
    learner: Arc<Learner>,
    api: Arc<Api>,
}

impl Learner {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, apis: Mutex::default() }
    }

    /// A call is about to be sent.
    pub(crate) fn begin(self: &Arc<Self>, api: &Arc<Api>) -> Watched {
        let watched = Watched { learner: Arc::clone(self), api: Arc::clone(api) };
        watched.change(|seen, now| seen.sent(now));
        watched
    }

    /// What was learned, as sections of a config.
    pub(crate) fn report(&self) -> String {
        self.lock().values().map(|(api, seen)| report::section(api, seen)).collect::<Vec<_>>().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Arc<Api>, Seen)>> {
        self.apis.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// The vendor has answered. The body that this returns passes as it comes, and is read along.
    pub(crate) fn answered<B>(self, status: StatusCode, headers: &HeaderMap, body: B) -> WatchedBody<B> {
        let dialect = self.api.dialect().unwrap_or_else(|| Dialect::detect(headers));
        WatchedBody::new(self, dialect, status, headers, body)
    }

    fn change(&self, change: impl FnOnce(&mut Seen, Timestamp)) {
        let now = self.learner.clock.now();
        // As many entries as the config has apis.
        let mut apis = self.learner.lock();
        let (_, seen) = apis
            .entry(self.api.name().to_string())
            .or_insert_with(|| (Arc::clone(&self.api), Seen::new(now)));
        change(seen, now);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.change(|seen, _| seen.ended());
    }
}
