//! Hot reload by content: a thread that reads the file again and again and tells when it says something else.
//!
//! Content, not times or events: a file that is moved over, renamed into place, edited in place, or a link that is
//! turned to another file all look the same from here, and none of them is missed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::ConfigError;
use crate::file::{self, ConfigFile};
use crate::sections::FromConfig;

/// How often a watched file is read, unless the caller says otherwise.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// No interval is shorter than this, so that none keeps a processor busy.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// What is new must read the same twice, this far apart: a file that is just being written is not yet meant.
const SETTLED_AFTER: Duration = Duration::from_millis(50);

/// Watches a config file until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct ConfigWatch {
    /// Never sent on: the thread wakes up when it is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: FromConfig> ConfigFile<C> {
    /// Watches the file from what it said when it was loaded, reading it every `interval`
    /// (see [`WATCH_INTERVAL`]).
    ///
    /// `changed` is called on the watch's own thread: with the config whenever the file says something new and right;
    /// with the error, once for each content, when it is wrong, and once when it cannot be read. The caller keeps the
    /// old config then. A file that is valid again after an error is reported even if it is the old one.
    ///
    /// `changed` is kept until the watch is dropped: give it a `Weak` of the watch's owner.
    pub fn watch(
        self,
        interval: Duration,
        changed: impl FnMut(Result<C, ConfigError>) + Send + 'static,
    ) -> std::io::Result<ConfigWatch> {
        let looker = Looker {
            // The working folder may change while the watch runs.
            path: std::path::absolute(&self.path)?,
            shown: self.path,
            told: Ok(self.content),
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
        // The callback itself may drop the last owner of the watch; a thread cannot wait for itself.
        if thread.thread().id() != std::thread::current().id() {
            // A panic of the callback was reported where it happened.
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

/// What the file holds, or why it cannot be read.
type Seen = Result<Vec<u8>, ConfigError>;

/// Compares the file with the last reported state.
struct Looker {
    path: PathBuf,
    /// The path as errors call it.
    shown: PathBuf,
    told: Seen,
    /// Something new that was seen once.
    unsettled: Option<Seen>,
}

impl Looker {
    /// Looks once; what there is to tell, if anything.
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
            Ok(content) => file::parse_file(&self.shown, content),
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
        _ => file::read(path, shown),
    }
}
