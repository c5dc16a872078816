//! The environment of tasks that already run: where the table is, and what the limit is called.

use std::env;

use tollway_core::{Policy, PolicyError};

use super::counter::{Layout, RATE_TABLE_API_MINUTE, RATE_TABLE_MINUTE, RATE_TABLE_VARIABLE};

/// The limit where nobody says another.
pub const REQUESTS_PER_MINUTE_DEFAULT: u64 = 200;

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

/// A policy of the documented limit, for a task that has no config file: 200 requests a minute until a source says other.
pub fn policy_of_environment(name: &str) -> Result<Policy, PolicyError> {
    Policy::new(name, [format!("{REQUESTS_PER_MINUTE_DEFAULT} requests / minute").as_str()])
}

#[cfg(test)]
mod tests {
    use super::super::fit::check_policy;
    use super::*;

    /// A4: 200 a minute where nobody says another.
    #[test]
    fn the_documented_limit_fits_the_documented_tables() {
        let policy = policy_of_environment("adobe").unwrap();
        assert_eq!(policy.limits()[0].to_string(), "200 requests / minute");
        for layout in [Layout::Minute, Layout::ApiMinute] {
            assert_eq!(check_policy(layout, &policy), Ok(()));
        }
    }
}
