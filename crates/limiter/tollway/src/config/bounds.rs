//! `[bounds]`: the most that a process keeps in memory.

use tollway_config::Section;

use super::store::{MEMORY_LINES_MAX, StoreUrl};
use super::store_kind::SharedBy;

/// The most takes that wait for a turn in one process, unless the config says otherwise.
pub const WAITING_TAKES_DEFAULT: usize = 65_536;

/// The most that `waiting_takes` accepts; each take is a future of about a kilobyte.
pub const WAITING_TAKES_MAX: usize = 10_000_000;

/// The most that a process keeps in memory.
///
/// ```
/// let config = tollway::Config::parse("[bounds]\nmemory_accounts = 5_000_000\nwaiting_takes = 1_000")?;
/// assert_eq!(config.bounds().memory_accounts(), Some(5_000_000));
/// assert_eq!(config.bounds().waiting_takes(), 1_000);
/// # Ok::<(), tollway::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BoundsConfig {
    memory_accounts: Option<usize>,
    waiting_takes: Option<usize>,
}

impl BoundsConfig {
    /// The most accounts of a store in memory, if the config says so.
    pub fn memory_accounts(&self) -> Option<usize> {
        self.memory_accounts
    }

    /// The most takes that wait for a turn. Further ones do not wait.
    pub fn waiting_takes(&self) -> usize {
        self.waiting_takes.unwrap_or(WAITING_TAKES_DEFAULT)
    }
}

/// The bounds, without those that have something wrong with them; that is in the report.
pub(super) fn read(mut section: Section<'_>, store: Option<&StoreUrl>) -> BoundsConfig {
    let memory_accounts = section.count("memory_accounts", MEMORY_LINES_MAX, "1_000_000");
    let waiting_takes = section.count("waiting_takes", WAITING_TAKES_MAX, "65_536");
    if memory_accounts.is_some() {
        match store {
            Some(StoreUrl::Memory { lines: Some(lines) }) => {
                let message = format!("the store's URL says `lines={lines}`, which is the same bound");
                section.problem("memory_accounts", message, "write it once");
            }
            Some(store) if store.kind().shared_by != SharedBy::Process => {
                let message = format!("it bounds a store in memory, and the store is {}", store.kind().name);
                section.problem("memory_accounts", message, "remove it");
            }
            _ => {}
        }
    }
    section.finish();
    BoundsConfig { memory_accounts, waiting_takes }
}
