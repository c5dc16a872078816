//! Inline commands: one line of words separated by spaces, with quotes around words that contain spaces.
//!
//! As in Redis, double quotes allow the escapes `\n`, `\r`, `\t`, `\b`, `\a` and `\xFF`, single quotes only `\'`; a closing
//! quote ends its word.

use smallvec::SmallVec;

use super::request::{Arguments, ProtocolError};
use crate::bounds::RESP_ARGUMENTS_MAX;

/// The words of a line, unquoted into `unquoted`.
pub(super) fn split<'a>(line: &[u8], unquoted: &'a mut Vec<u8>) -> Result<Arguments<'a>, ProtocolError> {
    unquoted.clear();
    let mut ends: SmallVec<[usize; 8]> = SmallVec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if ends.len() == RESP_ARGUMENTS_MAX {
            return Err(ProtocolError::LongLine);
        }
        rest = word(rest, unquoted)?.trim_ascii_start();
        ends.push(unquoted.len());
    }
    let mut begin = 0;
    let slice = |end| {
        let word = unquoted.get(begin..end).unwrap_or_default();
        begin = end;
        word
    };
    Ok(ends.into_iter().map(slice).collect())
}

/// Unquotes the first word and returns the rest.
fn word<'l>(mut rest: &'l [u8], unquoted: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [space, ..] if space.is_ascii_whitespace() => return Ok(rest),
            [b'"', quoted @ ..] => return after_quote(double_quoted(quoted, unquoted)?),
            [b'\'', quoted @ ..] => return after_quote(single_quoted(quoted, unquoted)?),
            [byte, rest @ ..] => {
                unquoted.push(*byte);
                rest
            }
        }
    }
}

/// A closing quote must end the word.
fn after_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::Quotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'l>(mut rest: &'l [u8], unquoted: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (nibble(*high) << 4 | nibble(*low), after)
            }
            [b'\\', escaped, after @ ..] => (control(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        unquoted.push(byte);
        rest = after;
    }
}

fn single_quoted<'l>(mut rest: &'l [u8], unquoted: &mut Vec<u8>) -> Result<&'l [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::Quotes),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        unquoted.push(byte);
        rest = after;
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit.wrapping_sub(b'0'),
        _ => digit.to_ascii_lowercase().wrapping_sub(b'a').wrapping_add(10),
    }
}

fn control(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_unquoted() {
        let cases: [(&str, &[&[u8]]); 9] = [
            ("", &[]),
            ("   ", &[]),
            ("PING", &[b"PING"]),
            ("  ECHO  hello ", &[b"ECHO", b"hello"]),
            (r#"ECHO "two words""#, &[b"ECHO", b"two words"]),
            (r#"ECHO "a\"b\\c\n\x41\xff""#, &[b"ECHO", b"a\"b\\c\nA\xff"]),
            (r"ECHO 'it\'s \n'", &[b"ECHO", br"it's \n"]),
            (r#"ECHO """#, &[b"ECHO", b""]),
            (r#"ECHO a"b""#, &[b"ECHO", b"ab"]),
        ];
        for (line, expected) in cases {
            let mut unquoted = Vec::new();
            let words = split(line.as_bytes(), &mut unquoted).unwrap();
            assert_eq!(&words[..], expected, "{line}");
        }
    }

    #[test]
    fn unbalanced_quotes_are_rejected() {
        for line in [r#"ECHO "a"#, r"ECHO 'a", r#"ECHO "a"b"#, r"ECHO 'a'b", r#"ECHO "a\"#] {
            assert_eq!(split(line.as_bytes(), &mut Vec::new()), Err(ProtocolError::Quotes), "{line}");
        }
        let many = "x ".repeat(RESP_ARGUMENTS_MAX + 1);
        assert_eq!(split(many.as_bytes(), &mut Vec::new()), Err(ProtocolError::LongLine));
    }
}
