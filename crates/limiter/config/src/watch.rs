//! Hot reload: a thread that polls the files of a config and reports when their contents change.
//!
//! It compares content, not times or events: so it detects a file that is replaced, renamed into place or edited in place,
//! and a symlink that changes its target.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::ConfigError;
use crate::file::{self, ConfigFile};
use crate::include::{ConfigText, read_all};
use crate::sections::FromConfig;

/// The default polling interval.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// The shortest interval, so that polling does not use much CPU.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// New content must be the same in two reads this far apart, so that a half-written file is not used.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Watches a config file until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct ConfigWatch {
    /// Never sent on: dropping it wakes the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: FromConfig> ConfigFile<C> {
    /// Watches the file and those that it includes for changes since they were loaded, and reads it every `interval` (see [`WATCH_INTERVAL`]).
    ///
    /// `changed` runs on the watch's own thread: with the config when new content is valid; with the error, once per
    /// content, when it is invalid, and once when it cannot be read. The caller then keeps the old config. Content that is
    /// valid again after an error is reported even if it did not change.
    ///
    /// `changed` lives until the watch is dropped: give it a `Weak` of the watch's owner.
    pub fn watch(
        self,
        interval: Duration,
        changed: impl FnMut(Result<C, ConfigError>) + Send + 'static,
    ) -> std::io::Result<ConfigWatch> {
        let looker = Looker {
            // The working directory may change while the watch runs.
            path: std::path::absolute(&self.path)?,
            shown: self.path,
            told: Ok(self.texts),
            unsettled: None,
        };
        let (stop, stopped) = channel();
        let interval = interval.max(INTERVAL_MIN);
        let thread = std::thread::Builder::new()
            .name("tollway-config".to_owned())
            .spawn(move || run(looker, interval, &stopped, changed))?;
        Ok(ConfigWatch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ConfigWatch {
    fn drop(&mut self) {
        self.stop = None;
        let Some(thread) = self.thread.take() else { return };
        // The callback itself may drop the last owner of the watch; a thread cannot join itself.
        if thread.thread().id() != std::thread::current().id() {
            // A panic of the callback was already reported.
            let _ = thread.join();
        }
    }
}

fn run<C: FromConfig>(
    mut looker: Looker,
    interval: Duration,
    stopped: &Receiver<()>,
    mut changed: impl FnMut(Result<C, ConfigError>),
) {
    let mut pause = interval;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if let Some(news) = looker.look() {
            changed(news);
        }
        pause = if looker.unsettled.is_some() { SETTLED_AFTER } else { interval };
    }
}

/// The texts of the files, or why they cannot be read.
type Seen = Result<Vec<ConfigText>, ConfigError>;

/// Compares the file with the last reported state.
struct Looker {
    path: PathBuf,
    /// The path for errors.
    shown: PathBuf,
    told: Seen,
    /// New content that was seen once.
    unsettled: Option<Seen>,
}

impl Looker {
    /// Polls once; returns what to report, if anything.
    fn look<C: FromConfig>(&mut self) -> Option<Result<C, ConfigError>> {
        let seen = read_file(&self.path, &self.shown);
        if seen == self.told {
            self.unsettled = None;
            return None;
        }
        if self.unsettled.as_ref() != Some(&seen) {
            self.unsettled = Some(seen);
            return None;
        }
        self.unsettled = None;
        let news = match &seen {
            Ok(texts) => file::parse_files(&self.shown, texts),
            Err(error) => Err(error.clone()),
        };
        self.told = seen;
        Some(news)
    }
}

/// Reads regular files only: a pipe would block the thread, and with it the drop of the watch.
fn read_file(path: &Path, shown: &Path) -> Seen {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            Err(ConfigError::whole("not a file, so it cannot be watched", "").in_file(shown))
        }
        _ => read_all(path, shown, path.parent().unwrap_or(Path::new(""))),
    }
}
