//! Requests of the Redis protocol.

use tollway_server::fuzz::{RespRead, resp};

use crate::fuzz;

/// The most words of a request, as documented in docs/guide/resp.md.
const WORDS_MAX: usize = 128;

/// T19: a request never consumes more bytes than there are; following bytes change nothing; it is parsed once it is
/// complete and not before; its words do not depend on the encoding.
#[test]
fn resp_requests() {
    fuzz("resp_requests", |input| {
        if let Ok(read) = resp(input, false) {
            assert_eq!(resp(input, true), Ok(read), "a token allows more, not less");
        }
        match resp(input, true) {
            Err(error) => error,
            Ok(RespRead::Incomplete) => "incomplete".to_owned(),
            Ok(RespRead::Request(words, taken)) => {
                is_whole(input, &words, taken);
                is_the_same_again(&words);
                format!("{} words", words.len().min(8))
            }
        }
    });
}

fn is_whole(input: &[u8], words: &[Vec<u8>], taken: usize) {
    assert!(taken > 0 && taken <= input.len() && words.len() <= WORDS_MAX);
    let whole = RespRead::Request(words.to_vec(), taken);
    assert_eq!(resp(&input[..taken], true), Ok(whole));
    for cut in [taken - 1, taken / 2, taken / 3] {
        assert_eq!(resp(&input[..cut], true), Ok(RespRead::Incomplete), "the first {cut} bytes");
    }
}

fn is_the_same_again(words: &[Vec<u8>]) {
    if words.is_empty() {
        return;
    }
    let mut written = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        written.extend(format!("${}\r\n", word.len()).bytes());
        written.extend(word);
        written.extend(b"\r\n");
    }
    let taken = written.len();
    assert_eq!(resp(&written, true), Ok(RespRead::Request(words.to_vec(), taken)));
}
