//! Parses requests in place: arguments are slices of the input, and an incomplete request waits for more. Protocol errors
//! have the wording of Redis.

use smallvec::SmallVec;

use super::inline;
use crate::bounds::{
    RESP_ARGUMENTS_BEFORE_AUTH_MAX, RESP_ARGUMENTS_MAX, RESP_BULK_BYTES_MAX, RESP_LINE_BYTES_MAX,
    RESP_REQUEST_BYTES_MAX,
};

/// The arguments of a request, the command's name first. Our commands have at most six.
pub(super) type Arguments<'a> = SmallVec<[&'a [u8]; 6]>;

/// What the input begins with.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed<'a> {
    /// A request, and its length in bytes.
    Request(Arguments<'a>, usize),
    /// An empty line or an empty array, and its length in bytes.
    Nothing(usize),
    /// An incomplete request.
    Incomplete,
}

/// A protocol error. The client gets it, and the connection is closed: it is unknown where the next request begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtocolError {
    #[error("too big inline request")]
    LongLine,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("too big mbulk count string")]
    LongCount,
    #[error("invalid multibulk length")]
    Count,
    #[error("unauthenticated multibulk length")]
    CountBeforeAuth,
    #[error("expected '$', got '{}'", char::from(*.0))]
    NoBulk(u8),
    #[error("too big bulk count string")]
    LongLength,
    #[error("invalid bulk length")]
    Length,
}

/// Parses the request that `input` begins with. Words of an inline command are unquoted into `unquoted`.
pub(super) fn parse<'a>(
    input: &'a [u8],
    unquoted: &'a mut Vec<u8>,
    authenticated: bool,
) -> Result<Parsed<'a>, ProtocolError> {
    match input {
        [] => Ok(Parsed::Incomplete),
        [b'*', ..] => parse_array(input, authenticated),
        _ => parse_line(input, unquoted),
    }
}

/// An array of bulk strings, as client libraries send.
fn parse_array(input: &[u8], authenticated: bool) -> Result<Parsed<'_>, ProtocolError> {
    let Some((count, mut at)) = number_line(input, 0, ProtocolError::LongCount)? else {
        return Ok(Parsed::Incomplete);
    };
    let count = match count.ok_or(ProtocolError::Count)? {
        ..=0 => return Ok(Parsed::Nothing(at)),
        count => usize::try_from(count).map_err(|_| ProtocolError::Count)?,
    };
    if count > RESP_ARGUMENTS_MAX {
        return Err(ProtocolError::Count);
    }
    if count > RESP_ARGUMENTS_BEFORE_AUTH_MAX && !authenticated {
        return Err(ProtocolError::CountBeforeAuth);
    }
    let mut arguments = Arguments::new();
    for _ in 0..count {
        match parse_bulk(input, at)? {
            Some((argument, next)) => {
                arguments.push(argument);
                at = next;
            }
            None => return Ok(Parsed::Incomplete),
        }
    }
    Ok(Parsed::Request(arguments, at))
}

/// The bulk string at `at`, and where it ends.
#[inline]
fn parse_bulk(input: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    match input.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(other) => return Err(ProtocolError::NoBulk(*other)),
    }
    let Some((length, begin)) = number_line(input, at, ProtocolError::LongLength)? else { return Ok(None) };
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= RESP_BULK_BYTES_MAX).ok_or(ProtocolError::Length)?;
    let end = begin.saturating_add(length);
    let next = end.saturating_add(2);
    if next > RESP_REQUEST_BYTES_MAX {
        return Err(ProtocolError::Length);
    }
    match input.get(begin..end) {
        Some(argument) if next <= input.len() => Ok(Some((argument, next))),
        _ => Ok(None),
    }
}

/// A line of a type byte and a number: the number, if it is valid, and where the next line begins.
#[inline]
fn number_line(
    input: &[u8],
    at: usize,
    too_long: ProtocolError,
) -> Result<Option<(Option<i64>, usize)>, ProtocolError> {
    let rest = input.get(at..).unwrap_or_default();
    match rest.iter().position(|byte| *byte == b'\r') {
        None if rest.len() > RESP_LINE_BYTES_MAX => Err(too_long),
        // The line feed must have arrived, too.
        Some(end) if end.saturating_add(2) <= rest.len() => {
            let number = rest.get(1..end).and_then(number);
            Ok(Some((number, at.saturating_add(end).saturating_add(2))))
        }
        _ => Ok(None),
    }
}

/// A number as Redis writes it: an optional minus, and no leading zeros.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<i64> {
    match text {
        [b'0'] => Some(0),
        [b'-', digits @ ..] => positive(digits)?.checked_neg(),
        digits => positive(digits),
    }
}

#[inline]
fn positive(digits: &[u8]) -> Option<i64> {
    let (b'1'..=b'9', true) = (digits.first()?, digits.iter().all(u8::is_ascii_digit)) else { return None };
    digits.iter().try_fold(0i64, |number, digit| {
        number.checked_mul(10)?.checked_add(i64::from(digit.wrapping_sub(b'0')))
    })
}

/// An inline command, as typed in a terminal.
fn parse_line<'a>(input: &'a [u8], unquoted: &'a mut Vec<u8>) -> Result<Parsed<'a>, ProtocolError> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return if input.len() > RESP_LINE_BYTES_MAX {
            Err(ProtocolError::LongLine)
        } else {
            Ok(Parsed::Incomplete)
        };
    };
    if end > RESP_LINE_BYTES_MAX {
        return Err(ProtocolError::LongLine);
    }
    let line = input.get(..end).unwrap_or_default();
    let arguments = inline::split(line.strip_suffix(b"\r").unwrap_or(line), unquoted)?;
    let taken = end.saturating_add(1);
    Ok(if arguments.is_empty() { Parsed::Nothing(taken) } else { Parsed::Request(arguments, taken) })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    type Words = (Vec<Vec<u8>>, usize);

    /// The arguments of the request, and its length in bytes.
    fn words(input: &[u8]) -> Result<Option<Words>, ProtocolError> {
        let mut unquoted = Vec::new();
        Ok(match parse(input, &mut unquoted, true)? {
            Parsed::Request(arguments, taken) => {
                Some((arguments.iter().map(|argument| argument.to_vec()).collect(), taken))
            }
            Parsed::Nothing(taken) => Some((Vec::new(), taken)),
            Parsed::Incomplete => None,
        })
    }

    fn request(arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend(format!("${}\r\n", argument.len()).bytes());
            bytes.extend(argument);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    #[test]
    fn numbers_are_strict() {
        for (text, value) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("007", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
        ] {
            assert_eq!(number(text.as_bytes()), value, "{text:?}");
        }
    }

    /// T19: input over a bound is rejected before it is buffered.
    #[test]
    fn input_over_a_bound_is_rejected_before_it_is_buffered() {
        let long = "x".repeat(RESP_LINE_BYTES_MAX + 1);
        let many = request(&vec![vec![b'x'; RESP_BULK_BYTES_MAX]; 5]);
        for (input, error) in [
            (format!("*{}\r\n", RESP_ARGUMENTS_MAX + 1).into_bytes(), ProtocolError::Count),
            (b"*9999999999999999999\r\n".to_vec(), ProtocolError::Count),
            (format!("*1\r\n${}\r\n", RESP_BULK_BYTES_MAX + 1).into_bytes(), ProtocolError::Length),
            (b"*1\r\n$-1\r\n".to_vec(), ProtocolError::Length),
            (b"*1\r\n$1x\r\n".to_vec(), ProtocolError::Length),
            (b"*1\r\nPING\r\n".to_vec(), ProtocolError::NoBulk(b'P')),
            (format!("*{long}").into_bytes(), ProtocolError::LongCount),
            (format!("*1\r\n${long}").into_bytes(), ProtocolError::LongLength),
            (long.clone().into_bytes(), ProtocolError::LongLine),
            (format!("{long}\r\n").into_bytes(), ProtocolError::LongLine),
            (b"PING \"a\r\n".to_vec(), ProtocolError::Quotes),
            (many, ProtocolError::Length),
        ] {
            assert_eq!(
                words(&input),
                Err(error),
                "{:?}",
                String::from_utf8_lossy(&input[..input.len().min(40)])
            );
        }
        let eleven = request(&vec![Vec::new(); RESP_ARGUMENTS_BEFORE_AUTH_MAX + 1]);
        let refused = parse(&eleven, &mut Vec::new(), false).map(|_| ());
        assert_eq!(refused, Err(ProtocolError::CountBeforeAuth));
    }

    proptest! {
        /// T19: bytes that no client would send never panic, and no parse takes more bytes than there are.
        #[test]
        fn arbitrary_bytes_never_parse_past_the_input(input in vec(any::<u8>(), 0..512), authenticated: bool) {
            let mut unquoted = Vec::new();
            if let Ok(Parsed::Request(_, taken) | Parsed::Nothing(taken)) = parse(&input, &mut unquoted, authenticated) {
                prop_assert!(taken > 0 && taken <= input.len());
            }
        }

        /// The same with bytes that look like the protocol.
        #[test]
        fn protocol_like_bytes_never_parse_past_the_input(pieces in vec(
            prop::sample::select(vec!["*", "$", "\r", "\n", "\r\n", "-", "0", "1", "2", "3", "9999999999", "\"", "'", "\\x", "a", " "]),
            0..64,
        )) {
            let input = pieces.concat().into_bytes();
            let mut unquoted = Vec::new();
            if let Ok(Parsed::Request(_, taken) | Parsed::Nothing(taken)) = parse(&input, &mut unquoted, true) {
                prop_assert!(taken > 0 && taken <= input.len());
            }
        }

        /// However a request is fragmented, it parses once it is complete and not before.
        #[test]
        fn a_request_parses_only_once_it_is_complete(
            arguments in vec(vec(any::<u8>(), 0..40), 1..10),
            rest in vec(any::<u8>(), 0..10),
        ) {
            let whole = request(&arguments);
            for cut in 0..whole.len() {
                prop_assert_eq!(words(&whole[..cut]), Ok(None));
            }
            let bytes = [whole.clone(), rest].concat();
            prop_assert_eq!(words(&bytes), Ok(Some((arguments, whole.len()))));
        }
    }
}
