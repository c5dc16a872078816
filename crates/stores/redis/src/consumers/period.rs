//! The keys of periods.

use tollway_core::{Period, Subject};

/// The text between a subject and its period in a key.
pub(crate) const JOINT: &str = "_PER_";

/// The key of this subject's counter, as in `consumer_123_PER_MINUTE`.
pub fn key(period: Period, subject: &Subject) -> String {
    key_of(period, subject.as_str())
}

/// The key of the counter of a name that need not be a subject.
pub(super) fn key_of(period: Period, name: &str) -> String {
    format!("{name}{JOINT}{}", period.to_string().to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_look_like_this() {
        let keys = Period::ALL.map(|period| key(period, &Subject::new("consumer_abc123").unwrap()));
        assert_eq!(
            keys,
            [
                "consumer_abc123_PER_SECOND",
                "consumer_abc123_PER_MINUTE",
                "consumer_abc123_PER_HOUR",
                "consumer_abc123_PER_DAY",
                "consumer_abc123_PER_WEEK",
                "consumer_abc123_PER_MONTH",
            ]
        );
    }
}
