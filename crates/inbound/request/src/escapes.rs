//! Percent-decodes input, and percent-encodes text that a header cannot hold.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that a header value cannot hold, and `%` itself. Bytes beyond ASCII are always encoded.
const IN_HEADERS: &AsciiSet = &CONTROLS.add(b'%');

/// The decoded text; `None` for an invalid escape or invalid UTF-8. Two spellings of one text decode to the same, so decode
/// once, and before any comparison.
///
/// ```
/// use tollway_inbound::escapes::percent_decode;
///
/// assert_eq!(percent_decode("%61nn%C3%A4").as_deref(), Some("annä"));
/// assert_eq!(percent_decode("100%"), None);
/// ```
pub fn percent_decode(text: &str) -> Option<String> {
    // The decoder passes an invalid escape through, so two inputs could decode to the same text.
    let is_escape = |after: &str| matches!(after.as_bytes(), [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

/// Encodes text for a header or a gRPC message: visible ASCII and spaces stay, the rest is escaped.
///
/// ```
/// assert_eq!(tollway_inbound::escapes::escaped("50 % of ü\r\n"), "50 %25 of %C3%BC%0D%0A");
/// ```
pub fn escaped(text: &str) -> String {
    utf8_percent_encode(text, IN_HEADERS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_invalid_ones_rejected() {
        for (written, meant) in [("a%2Fb%c3%a4", "a/bä"), ("%2561", "%61"), ("a+b", "a+b"), ("", "")] {
            assert_eq!(percent_decode(written).as_deref(), Some(meant));
        }
        for text in ["plain, 100 %\r\n\u{fc}\u{1b}[31m", "a b~", ""] {
            assert_eq!(percent_decode(&escaped(text)).as_deref(), Some(text));
        }
        assert_eq!(escaped("plain, 100 %\r\n\u{fc}\u{1b}[31m"), "plain, 100 %25%0D%0A%C3%BC%1B[31m");
        for wrong in ["%", "%2", "%zz", "%ff", "%+1", "%%41", "%4%31", "%é1"] {
            assert_eq!(percent_decode(wrong), None, "{wrong}");
        }
    }
}
