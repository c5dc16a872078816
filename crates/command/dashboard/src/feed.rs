//! One snapshot a second for all viewers, made while there is one, and encoded once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::snapshot::Snapshot;

/// The largest event, with its first line.
pub(crate) const EVENT_BYTES_MAX: usize = 64 * 1_024;

/// What of an event is neither rows nor lists that are cut off.
const RESERVED: usize = 4 * 1_024;

/// The most bytes of each list beside the rows.
const APIS_BYTES: usize = 12 * 1_024;
const PIPELINES_BYTES: usize = 16 * 1_024;
const ALARMS_BYTES: usize = 8 * 1_024;

/// The rows of a snapshot.
pub(crate) const ROWS_MAX: usize = 200;

/// Streams at a time: each is a connection of the administration, which has 256.
const VIEWERS_MAX: usize = 64;

/// What every stream sends next.
pub(crate) struct Frame {
    pub(crate) number: u64,
    snapshot: Snapshot,
    /// Missing where the whole state is smaller.
    changes: Option<Bytes>,
    /// Encoded for the first viewer that needs it.
    full: OnceLock<Bytes>,
}

impl Frame {
    /// The event for a viewer that has seen this frame last.
    pub(crate) fn event(&self, seen: Option<u64>) -> Bytes {
        let changes = self.changes.as_ref().filter(|_| seen.is_some_and(|seen| seen + 1 == self.number));
        if let Some(changes) = changes {
            return changes.clone();
        }
        self.full.get_or_init(|| event("snapshot", &self.snapshot)).clone()
    }
}

/// The frames, and who wants them.
pub(crate) struct Feed {
    frames: watch::Sender<Option<Arc<Frame>>>,
    viewers: AtomicUsize,
    /// A viewer came, or the last one left.
    woken: Notify,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { frames: watch::Sender::new(None), viewers: AtomicUsize::new(0), woken: Notify::new() }
    }

    pub(crate) fn viewers(&self) -> usize {
        self.viewers.load(Ordering::Relaxed)
    }

    /// Ready when a viewer comes, or leaves.
    pub(crate) async fn changed(&self) {
        self.woken.notified().await;
    }

    /// Adds a viewer; `None` if there are too many.
    pub(crate) fn watch(self: &Arc<Self>) -> Option<Viewer> {
        if self.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
            self.viewers.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.woken.notify_one();
        Some(Viewer { frames: self.frames.subscribe(), seen: None, feed: Arc::clone(self) })
    }

    /// Sends a snapshot to all viewers.
    pub(crate) fn send(&self, mut snapshot: Snapshot) {
        fit_event(&mut snapshot);
        let last = self.frames.borrow().clone();
        let (number, changes) = match &last {
            Some(last) => (last.number + 1, Some(event("changes", &last.snapshot.changes_to(&snapshot)))),
            None => (0, None),
        };
        // If every row is another one, the changes name those that are gone, too.
        let changes = changes.filter(|changes| changes.len() <= EVENT_BYTES_MAX - RESERVED);
        self.frames.send_replace(Some(Arc::new(Frame { number, snapshot, changes, full: OnceLock::new() })));
    }

    /// Forgets the last frame: what a viewer sees first must not be old.
    pub(crate) fn clear(&self) {
        self.frames.send_replace(None);
    }
}

/// One viewer, until it is dropped.
pub(crate) struct Viewer {
    frames: watch::Receiver<Option<Arc<Frame>>>,
    seen: Option<u64>,
    feed: Arc<Feed>,
}

impl Viewer {
    /// The next event; `None` when the process ends.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let frame = self.frames.borrow_and_update().clone();
            if let Some(frame) = frame.filter(|frame| self.seen != Some(frame.number)) {
                let event = frame.event(self.seen);
                self.seen = Some(frame.number);
                return Some(event);
            }
            self.frames.changed().await.ok()?;
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.viewers.fetch_sub(1, Ordering::Relaxed);
        self.feed.woken.notify_one();
    }
}

/// As a server-sent event. JSON has no line breaks of its own.
fn event(name: &str, data: &impl Serialize) -> Bytes {
    let mut bytes = format!("event: {name}\ndata: ").into_bytes();
    if let Err(error) = serde_json::to_writer(&mut bytes, data) {
        tracing::error!(%error, "cannot serialize an event");
    }
    bytes.extend(b"\n\n");
    Bytes::from(bytes)
}

/// Cuts lists off, so that the event fits.
fn fit_event(snapshot: &mut Snapshot) {
    let used = cut_off(&mut snapshot.apis, APIS_BYTES)
        + cut_off(&mut snapshot.pipelines, PIPELINES_BYTES)
        + cut_off(&mut snapshot.alarms, ALARMS_BYTES);
    cut_off(&mut snapshot.rows, EVENT_BYTES_MAX - RESERVED - used);
}

/// Keeps the first entries, as far as they fit. Returns their bytes.
fn cut_off<T: Serialize>(entries: &mut Vec<T>, bytes_max: usize) -> usize {
    let mut used = 0;
    let fits = |entry: &&T| {
        let bytes = serde_json::to_vec(entry).map_or(usize::MAX, |json| json.len() + 1);
        let fits = bytes <= bytes_max - used;
        used += if fits { bytes } else { 0 };
        fits
    };
    let kept = entries.iter().take_while(fits).count();
    entries.truncate(kept);
    used
}
