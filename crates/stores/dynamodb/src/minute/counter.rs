//! One counter: the item of one minute.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use tollway_core::{AccountKey, Span, Timestamp};

/// The default table of the layout `minute`.
pub const RATE_TABLE_MINUTE: &str = "adobe-api-rate-limit";

/// The default table of the layout `api-minute`.
pub const RATE_TABLE_API_MINUTE: &str = "AdobeRateLimiter";

/// The environment variable that names the table where a URL does not.
pub const RATE_TABLE_VARIABLE: &str = "RATE_LIMIT_TABLE";

/// How long after its minute an item is kept.
const KEPT_AFTER: Span = Span::from_secs(120);

/// What a minute is.
pub(super) const MINUTE: Span = Span::from_secs(60);

/// How a table counts minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One budget; the key is the minute in text form.
    Minute,
    /// One budget for each `api_type`; the key is that and the minute, as a number.
    ApiMinute,
}

impl Layout {
    /// The layout of this name, as URLs have it.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "minute" => Some(Self::Minute),
            "api-minute" => Some(Self::ApiMinute),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::ApiMinute => "api-minute",
        }
    }

    /// The attributes of its tables' key with their types, the partition key first.
    pub fn key(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Minute => &[("minute_key", "S")],
            Self::ApiMinute => &[("api_type", "S"), ("minute", "N")],
        }
    }
}

/// One counter: whose, and of which minute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Counter {
    layout: Layout,
    /// Empty where all share one.
    api_type: String,
    /// Minutes since 1970.
    minute: u64,
}

impl Counter {
    /// The counter of an account at this time.
    pub(super) fn at(layout: Layout, account: &AccountKey, now: Timestamp) -> Self {
        let api_type = match layout {
            Layout::Minute => String::new(),
            Layout::ApiMinute => account.subject.as_str().to_owned(),
        };
        Self { layout, api_type, minute: now.as_micros() / MINUTE.as_micros() }
    }

    /// The first moment after its minute.
    pub(super) fn end(&self) -> Timestamp {
        Timestamp::EPOCH.plus(Span::from_secs(self.minute.saturating_add(1).saturating_mul(60)))
    }

    /// From when on the table may delete it, in seconds since 1970.
    pub(super) fn ttl(&self) -> u64 {
        self.end().plus(KEPT_AFTER).as_micros() / 1_000_000
    }

    /// The key of its item.
    pub(super) fn key(&self) -> HashMap<String, AttributeValue> {
        let text = |name: &str, value: String| (name.to_owned(), AttributeValue::S(value));
        match self.layout {
            Layout::Minute => [text("minute_key", minute_key(self.end().minus(MINUTE)))].into(),
            Layout::ApiMinute => [
                text("api_type", self.api_type.clone()),
                ("minute".to_owned(), AttributeValue::N(self.minute.to_string())),
            ]
            .into(),
        }
    }
}

/// The minute at this time in text form: `2025-02-19-10-30`.
pub(super) fn minute_key(at: Timestamp) -> String {
    at.to_string()
        .chars()
        .take("2025-02-19T10:30".len())
        .map(|letter| if "T:".contains(letter) { '-' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollway_core::{Name, Subject};

    fn counter(layout: Layout) -> Counter {
        let account =
            AccountKey { policy: Name::new("p").unwrap(), subject: Subject::new("autotag").unwrap() };
        // 2025-02-19T10:30:59.999Z
        Counter::at(layout, &account, Timestamp::from_millis(1_739_961_059_999))
    }

    /// A4: `minute_key` is `YYYY-MM-DD-HH-MM`, `ttl` two minutes past the minute's end.
    #[test]
    fn a_minute_has_the_documented_key_and_ttl() {
        let counter = counter(Layout::Minute);
        assert_eq!(
            counter.key(),
            [("minute_key".to_owned(), AttributeValue::S("2025-02-19-10-30".into()))].into()
        );
        assert_eq!(counter.ttl(), 1_739_961_060 + 120);
        assert_eq!(counter.end(), Timestamp::from_secs(1_739_961_060));
    }

    /// P10: `api_type` and the number `int(time / 60)`.
    #[test]
    fn an_api_type_has_the_documented_key() {
        let key = counter(Layout::ApiMinute).key();
        assert_eq!(key.get("api_type"), Some(&AttributeValue::S("autotag".into())));
        assert_eq!(key.get("minute"), Some(&AttributeValue::N((1_739_961_059 / 60).to_string())));
    }
}
