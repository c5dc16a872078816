//! Everything that the process logs, at every level, and the panics of its threads.

use std::io::{self, Write};
use std::sync::{Mutex, Once, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

use crate::{CALLERS, CREDENTIAL};

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static BEGUN: Once = Once::new();

/// The prefix of a panic's line. Threads of tests are named after them; those of the gateway begin otherwise.
const PANIC: &str = "PANIC IN THE GATEWAY";

/// The first line.
const BEGINNING: &str = "the log of this program begins";

/// Keeps the log from now on.
pub(crate) fn keep() {
    BEGUN.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        tracing::subscriber::set_global_default(subscriber.with_writer(Log).finish()).unwrap();
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("tollway")) {
                let _ = writeln!(Log, "{PANIC}: {panic}");
            }
            usual(panic);
        }));
        tracing::debug!("{BEGINNING}");
    });
}

/// Fails if a thread of the gateway has panicked, or if the log has a credential.
pub(crate) fn check() {
    let log = String::from_utf8_lossy(&LOG.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
    for hidden in [PANIC, CREDENTIAL, CALLERS] {
        let line = log.lines().find(|line| line.contains(hidden));
        assert!(line.is_none(), "{hidden}: {line:?}");
    }
    assert!(log.contains(BEGINNING), "the log is kept");
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self
    }
}
