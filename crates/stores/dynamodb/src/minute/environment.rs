//! The environment of tasks that already run: where the table is.

use std::env;

use super::counter::{Layout, RATE_TABLE_API_MINUTE, RATE_TABLE_MINUTE, RATE_TABLE_VARIABLE};

/// The table that `$RATE_LIMIT_TABLE` names; else the one of the layout's document.
pub fn table_of_environment(layout: Layout) -> String {
    let named = env::var(RATE_TABLE_VARIABLE).ok().filter(|table| !table.is_empty());
    named.unwrap_or_else(|| {
        match layout {
            Layout::Minute => RATE_TABLE_MINUTE,
            Layout::ApiMinute => RATE_TABLE_API_MINUTE,
        }
        .to_owned()
    })
}
