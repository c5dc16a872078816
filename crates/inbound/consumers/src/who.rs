//! Identifies the consumer of a request.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::{ConsumerId, ConsumerIdError, WhoCalls};

/// The largest file of tokens: about two hundred thousand of them.
const TOKENS_BYTES_MAX: u64 = 32 << 20;

/// Identifies the consumer of a request.
pub struct Who {
    header: Option<String>,
    tokens: Option<Tokens>,
}

struct Tokens {
    header: String,
    /// By the SHA-256 of each token. Lookup by hash leaks nothing about a token through its timing.
    consumers: HashMap<[u8; 32], ConsumerId>,
}

/// Why the credential of a request names no consumer. A caller error.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhoError {
    /// The header is not UTF-8 text.
    #[error("the header {0} is not text")]
    NotText(String),
    /// The header does not hold a consumer id.
    #[error("the header {header}: {error}")]
    NotAConsumer {
        /// The header.
        header: String,
        /// The problem.
        error: ConsumerIdError,
    },
    /// An unknown token.
    #[error("the token in the header {0} is not known")]
    UnknownToken(String),
}

tollway_core::debug_as_display!(WhoError);

/// Why a token file cannot be used.
#[derive(thiserror::Error)]
#[error("the tokens of consumers in {}: {problem}", .path.display())]
pub struct TokensError {
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: String,
}

tollway_core::debug_as_display!(TokensError);

impl Who {
    /// Reads the configured tokens.
    pub fn new(config: &WhoCalls) -> Result<Self, TokensError> {
        let tokens = config.tokens.as_ref().map(|tokens| {
            let consumers = read_file(&tokens.file);
            let consumers =
                consumers.map_err(|problem| TokensError { path: tokens.file.clone(), problem })?;
            Ok(Tokens { header: tokens.header.clone(), consumers })
        });
        Ok(Self { header: config.header.clone(), tokens: tokens.transpose()? })
    }

    /// The headers that may identify a consumer. A request that has one of them twice is ambiguous: reject it.
    pub fn headers(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|tokens| tokens.header.as_str()).chain(self.header.as_deref())
    }

    /// The consumer that the request identifies; `None` is anonymous. `header` returns the value of a header by its
    /// lower-case name; an empty value counts as absent.
    pub fn calls<'h>(
        &self,
        header: impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Result<Option<ConsumerId>, WhoError> {
        let header = |name: &str| header(name).filter(|value| !value.is_empty());
        if let Some(tokens) = &self.tokens
            && let Some(shown) = header(&tokens.header)
        {
            return tokens.find(shown).map(Some);
        }
        let Some((name, value)) = self.header.as_ref().and_then(|name| Some((name, header(name)?))) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value).map_err(|_| WhoError::NotText(name.clone()))?;
        let wrong = |error| WhoError::NotAConsumer { header: name.clone(), error };
        ConsumerId::new(text).map(Some).map_err(wrong)
    }
}

impl Tokens {
    fn find(&self, shown: &[u8]) -> Result<ConsumerId, WhoError> {
        let digest: [u8; 32] = Sha256::digest(token_in(shown)).into();
        self.consumers.get(&digest).cloned().ok_or_else(|| WhoError::UnknownToken(self.header.clone()))
    }
}

/// The token: the whole value, the part after `Bearer`, or the `token` of `DirectLogin`.
fn token_in(shown: &[u8]) -> &[u8] {
    let after = |word: &[u8]| {
        let (first, rest) = shown.split_at_checked(word.len())?;
        first.eq_ignore_ascii_case(word).then(|| rest.trim_ascii())
    };
    if let Some(token) = after(b"bearer ") {
        return token;
    }
    let Some(fields) = after(b"directlogin ") else { return shown };
    let mut fields = fields.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let token = fields.find_map(|field| field.strip_prefix(b"token=")).unwrap_or(shown);
    token.strip_prefix(b"\"").and_then(|token| token.strip_suffix(b"\"")).unwrap_or(token)
}

fn read_file(path: &Path) -> Result<HashMap<[u8; 32], ConsumerId>, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut file = file.take(TOKENS_BYTES_MAX + 1);
    let length = file.read_to_string(&mut text).map_err(|error| error.to_string())?;
    if u64::try_from(length).is_ok_and(|length| length > TOKENS_BYTES_MAX) {
        return Err(format!("it has more than {TOKENS_BYTES_MAX} bytes"));
    }
    read_lines(&text)
}

fn read_lines(text: &str) -> Result<HashMap<[u8; 32], ConsumerId>, String> {
    let mut consumers = HashMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |problem: &str| format!("line {}: {problem}", index + 1);
        let (consumer, digest) =
            line.split_once(char::is_whitespace).ok_or_else(|| at("write CONSUMER SHA-256"))?;
        let consumer = ConsumerId::new(consumer).map_err(|error| at(&error.to_string()))?;
        let digest = read_digest(digest.trim()).ok_or_else(|| {
            at("the second word must be the token's SHA-256 in 64 hexadecimal digits: printf %s TOKEN | sha256sum")
        })?;
        if consumers.insert(digest, consumer).is_some() {
            return Err(at("this token is listed twice"));
        }
    }
    Ok(consumers)
}

fn read_digest(hex: &str) -> Option<[u8; 32]> {
    let hex = hex.as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    hex.iter().all(u8::is_ascii_hexdigit).then_some(digest)
}

/// The number of tokens in the text of a file, or what is wrong with it.
pub fn count_tokens(text: &str) -> Result<usize, String> {
    read_lines(text).map(|consumers| consumers.len())
}

/// The line of a token in the file.
pub fn token_line(consumer: &ConsumerId, token: &str) -> String {
    let mut line = format!("{consumer} ");
    for byte in Sha256::digest(token) {
        // Writing to a string cannot fail.
        let _ = write!(line, "{byte:02x}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConsumerTokens;

    fn who(tokens: Option<&str>) -> (tempfile::TempDir, Result<Who, TokensError>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, tokens.unwrap_or_default()).unwrap();
        let tokens = tokens.map(|_| ConsumerTokens { header: "authorization".to_owned(), file });
        let who = Who::new(&WhoCalls { header: Some("x-consumer-id".to_owned()), tokens });
        (folder, who)
    }

    fn called(who: &Who, name: &'static str, value: &'static [u8]) -> Result<Option<String>, WhoError> {
        let consumer = who.calls(|asked| (asked == name).then_some(value))?;
        Ok(consumer.map(|consumer| consumer.to_string()))
    }

    #[test]
    fn a_header_names_a_consumer_or_the_request_is_anonymous() {
        let who = who(None).1.unwrap();
        assert_eq!(called(&who, "x-consumer-id", b"abc"), Ok(Some("abc".to_owned())));
        assert_eq!(called(&who, "authorization", b"Bearer x"), Ok(None), "the header is not read");
        assert!(matches!(called(&who, "x-consumer-id", b"\xff"), Err(WhoError::NotText(_))));
        assert!(matches!(called(&who, "x-consumer-id", b"a b"), Err(WhoError::NotAConsumer { .. })));
    }

    #[test]
    fn a_token_names_its_consumer_and_an_unknown_one_is_an_error() {
        let line = token_line(&ConsumerId::new("abc").unwrap(), "s3cret");
        let (_folder, who) = who(Some(&format!("# tokens\n\n{line}\n")));
        let who = who.unwrap();
        for shown in ["Bearer s3cret", "bearer  s3cret", "s3cret", r#"DirectLogin token="s3cret""#] {
            let consumer = who.calls(|name| (name == "authorization").then_some(shown.as_bytes()));
            assert_eq!(consumer.unwrap().unwrap().as_str(), "abc", "{shown}");
        }
        let direct = br#"DirectLogin username="u", token="s3cret""#;
        assert_eq!(called(&who, "authorization", direct), Ok(Some("abc".to_owned())));
        assert_eq!(called(&who, "authorization", b""), Ok(None), "an empty header is absent");
        for shown in [&b"Bearer other"[..], b"Bearer", b"DirectLogin token=\"\"", b"\xff"] {
            let error = called(&who, "authorization", shown);
            assert_eq!(error, Err(WhoError::UnknownToken("authorization".to_owned())));
        }
    }

    #[test]
    fn an_invalid_token_file_error_names_the_line() {
        let twice = token_line(&ConsumerId::new("abc").unwrap(), "one");
        for (text, problem) in [
            ("abc", "line 1: write CONSUMER"),
            ("\nabc 12", "line 2: the second word"),
            (&format!("abc {}", "+f".repeat(32)), "line 1: the second word"),
            (&format!("{twice}\n{twice}"), "line 2: this token is listed twice"),
        ] {
            let error = who(Some(text)).1.err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
        let missing = ConsumerTokens { header: "a".to_owned(), file: "no/such/file".into() };
        assert!(Who::new(&WhoCalls { header: None, tokens: Some(missing) }).is_err());
    }
}
