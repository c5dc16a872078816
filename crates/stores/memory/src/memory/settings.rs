//! The settings of the memory store.

use std::future::ready;
use std::sync::{Mutex, PoisonError};

use tollway_core::{Setting, SettingChange, SettingList, Settings, SettingsAnswer};

use super::MemoryStore;

/// The settings, shared by all threads.
pub(super) type SharedSettings = Mutex<SettingList>;

impl Settings for MemoryStore {
    fn settings(&self) -> SettingsAnswer<Vec<Setting>> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).all().to_vec();
        Box::pin(ready(Ok(settings)))
    }

    fn change(&self, change: SettingChange) -> SettingsAnswer<()> {
        let now = self.clock.now();
        let changed = self.settings.lock().unwrap_or_else(PoisonError::into_inner).change(change, now);
        Box::pin(ready(changed))
    }
}
