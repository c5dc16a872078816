//! `RateLimit-Policy` and `RateLimit` as structured fields (RFC 9651): lists of strings with parameters.

use std::fmt::Write;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollway_core::{Span, Timestamp};

use super::{LimitStatus, whole_seconds};

/// What is escaped in a string of a structured field, beside bytes beyond ASCII.
const IN_STRINGS: &AsciiSet = &CONTROLS.add(b'%').add(b'"').add(b'\\');

/// The largest integer of a structured field: fifteen digits.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// What each limit allows: quota, unit and window.
pub(super) fn policies<'a>(statuses: impl Iterator<Item = &'a LimitStatus<'a>>) -> String {
    list(statuses, |status, text| {
        let _ = write!(text, ";q={}", status.limit.amount().min(INTEGER_MAX));
        if status.limit.has_slots() {
            text.push_str(";qu=\"concurrent-requests\"");
        } else if status.limit.unit().as_str() != "requests" {
            text.push_str(";qu=");
            string(status.limit.unit().as_str(), text);
        }
        // A window of less than a second cannot be said.
        if let Some(period) = status.limit.period().filter(|period| *period >= Span::from_secs(1)) {
            let _ = write!(text, ";w={}", whole_seconds(period));
        }
    })
}

/// What is left of each limit, and for how long. A limit that refuses lasts until the caller should come back.
pub(super) fn limits<'a>(
    statuses: impl Iterator<Item = &'a LimitStatus<'a>>,
    now: Timestamp,
    retry_after: Option<Span>,
) -> String {
    list(statuses, |status, text| {
        let resets_in = status.reading.resets_at.since(now);
        let lasts = retry_after.filter(|_| status.refuses).unwrap_or(resets_in);
        let remaining = status.reading.remaining.min(INTEGER_MAX);
        let _ = write!(text, ";r={remaining};t={}", whole_seconds(lasts).min(INTEGER_MAX));
    })
}

fn list<'a>(
    statuses: impl Iterator<Item = &'a LimitStatus<'a>>,
    parameters: impl Fn(&LimitStatus<'a>, &mut String),
) -> String {
    let mut text = String::with_capacity(64);
    for status in statuses {
        if !text.is_empty() {
            text.push_str(", ");
        }
        match status.policy {
            None => string(status.limit.name().as_str(), &mut text),
            Some(policy) => string(&format!("{policy}.{}", status.limit.name()), &mut text),
        }
        parameters(status, &mut text);
    }
    text
}

/// In quotes. Names have no quotes in them; letters beyond ASCII, which a structured field cannot hold, are escaped as in a
/// URL.
fn string(name: &str, text: &mut String) {
    text.push('"');
    text.extend(utf8_percent_encode(name, IN_STRINGS));
    text.push('"');
}
