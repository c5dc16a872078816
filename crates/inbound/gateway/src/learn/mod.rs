//! Watching instead of limiting: what the answers of vendors and the traffic say about their limits.
//!
//! `seen` is what is kept of each api, `report` writes it as a section of a config, with the evidence for each line.

mod report;
mod seen;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode};
use tollway::config::Api;
use tollway::{Clock, Timestamp};
use tollway_dialects::{Dialect, VendorResponse};

use seen::Seen;

/// What was seen of every api since the start.
pub(crate) struct Learner {
    clock: Arc<dyn Clock>,
    apis: Mutex<BTreeMap<String, (Arc<Api>, Seen)>>,
}

/// A call that is in flight until it is dropped.
pub(crate) struct Watched<'l> {
    learner: &'l Learner,
    api: &'l Arc<Api>,
}

impl Learner {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, apis: Mutex::default() }
    }

    /// A call is about to be sent.
    pub(crate) fn begin<'l>(&'l self, api: &'l Arc<Api>) -> Watched<'l> {
        self.change(api, |seen, now| seen.sent(now));
        Watched { learner: self, api }
    }

    /// What was learned, as sections of a config.
    pub(crate) fn report(&self) -> String {
        self.lock().values().map(|(api, seen)| report::section(api, seen)).collect::<Vec<_>>().join("\n")
    }

    fn change(&self, api: &Arc<Api>, change: impl FnOnce(&mut Seen, Timestamp)) {
        let now = self.clock.now();
        // As many entries as the config has apis.
        let mut apis = self.lock();
        let (_, seen) =
            apis.entry(api.name().to_string()).or_insert_with(|| (Arc::clone(api), Seen::new(now)));
        change(seen, now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Arc<Api>, Seen)>> {
        self.apis.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched<'_> {
    /// The vendor has answered. Bodies are not read: they belong to the caller.
    pub(crate) fn answered(self, status: StatusCode, headers: &HeaderMap) {
        let dialect = self.api.dialect().unwrap_or_else(|| Dialect::detect(headers));
        let observed = dialect.observe(&VendorResponse { status, headers, body: &[] });
        self.learner.change(self.api, |seen, now| seen.answered(status, dialect.name(), &observed, now));
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.learner.change(self.api, |seen, _| seen.ended());
    }
}
