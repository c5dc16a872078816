//! %-escapes: replaced where text comes in, written where a header could not hold it.

use std::fmt::Write;

/// The text that is meant; nothing if an escape is wrong or the result is not text. Whatever is written in two ways is the
/// same afterwards, so it must be done once, and before anything is compared.
///
/// ```
/// use tollway_inbound::escapes::replaced;
///
/// assert_eq!(replaced("%61nn%C3%A4").as_deref(), Some("annä"));
/// assert_eq!(replaced("100%"), None);
/// ```
pub fn replaced(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        rest = after;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let [high, low] = digits.map(digit);
        bytes.push(high? << 4 | low?);
    }
    String::from_utf8(bytes).ok()
}

/// Text as a header can hold it, and as gRPC wants its messages: visible ASCII and spaces, the rest escaped.
///
/// ```
/// assert_eq!(tollway_inbound::escapes::escaped("50 % of ü\r\n"), "50 %25 of %C3%BC%0D%0A");
/// ```
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => escaped.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_replaced_once_and_wrong_ones_refused() {
        for (written, meant) in [("a%2Fb%c3%a4", "a/bä"), ("%2561", "%61"), ("a+b", "a+b"), ("", "")] {
            assert_eq!(replaced(written).as_deref(), Some(meant));
        }
        for text in ["plain, 100 %\r\n\u{fc}\u{1b}[31m", "a b~", ""] {
            assert_eq!(replaced(&escaped(text)).as_deref(), Some(text));
        }
        assert_eq!(escaped("plain, 100 %\r\n\u{fc}\u{1b}[31m"), "plain, 100 %25%0D%0A%C3%BC%1B[31m");
        for wrong in ["%", "%2", "%zz", "%ff", "%+1"] {
            assert_eq!(replaced(wrong), None, "{wrong}");
        }
    }
}
