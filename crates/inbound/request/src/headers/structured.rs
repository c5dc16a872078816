//! `RateLimit-Policy` and `RateLimit` as structured fields (RFC 9651): lists of strings with parameters.

use std::fmt::Write;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tollway_core::{Span, Timestamp};

use super::{LimitStatus, whole_seconds};

/// Characters to escape in a structured field's string. Bytes beyond ASCII are always escaped.
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
        // The field cannot express a window under one second.
        if let Some(period) = status.limit.period().filter(|period| *period >= Span::from_secs(1)) {
            let _ = write!(text, ";w={}", whole_seconds(period));
        }
    })
}

/// What remains of each limit, and for how long. A limit that refuses shows the retry delay.
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

/// Quotes a string, and percent-encodes letters beyond ASCII, which a structured field cannot hold. Names contain no quotes.
fn string(name: &str, text: &mut String) {
    text.push('"');
    text.extend(utf8_percent_encode(name, IN_STRINGS));
    text.push('"');
}
