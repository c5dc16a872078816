//! Tokens: reading them from their files or variables, and comparing them.

use std::io::Read;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tollway::Secret;

use crate::bounds::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use crate::{ServeError, ServerConfig, Token};

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// May read.
    Read,
    /// May read and write.
    Write,
}

/// The tokens in force.
pub(crate) struct Tokens {
    /// A random key of this process. Tokens are compared by their HMACs, so that the time of a comparison does not depend
    /// on how much of a guess is right.
    key: Hmac<Sha256>,
    known: Vec<(Right, [u8; 32])>,
}

impl Tokens {
    /// Reads the tokens of the administration.
    pub(crate) fn read(config: &ServerConfig) -> Result<Self, ServeError> {
        Self::of([(Right::Read, &config.read_token), (Right::Write, &config.write_token)])
    }

    /// Reads the token of the Redis protocol.
    pub(crate) fn read_resp(config: &ServerConfig) -> Result<Self, ServeError> {
        Self::of([(Right::Read, &config.resp_token)])
    }

    fn of<'a>(named: impl IntoIterator<Item = (Right, &'a Option<Token>)>) -> Result<Self, ServeError> {
        let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
        getrandom::fill(&mut key).map_err(|error| ServeError::Machine(error.to_string()))?;
        let mut tokens = Self { key: Hmac::new(&key), known: Vec::new() };
        for (right, token) in named.into_iter().filter_map(|(right, token)| Some((right, token.as_ref()?))) {
            let secret =
                read(token).map_err(|problem| ServeError::Token { token: token.clone(), problem })?;
            let digest = tokens.digest(secret.as_bytes());
            tokens.known.push((right, digest));
        }
        Ok(tokens)
    }

    /// Whether no token is configured.
    pub(crate) fn are_none(&self) -> bool {
        self.known.is_empty()
    }

    /// What a token allows; `None` if it is unknown.
    pub(crate) fn right_of(&self, token: &[u8]) -> Option<Right> {
        // Compares with all, so that the time does not tell which one matches.
        let matching = self
            .known
            .iter()
            .filter(|(_, known)| self.key.clone().chain_update(token).verify_slice(known).is_ok());
        matching.map(|(right, _)| *right).max()
    }

    fn digest(&self, token: &[u8]) -> [u8; 32] {
        self.key.clone().chain_update(token).finalize().into_bytes().into()
    }
}

/// The secret that signs permits, if the config names one.
pub(crate) fn read_permit_secret(config: &ServerConfig) -> Result<Option<Secret>, ServeError> {
    let Some(token) = &config.permits_token else { return Ok(None) };
    let text = read(token).map_err(|problem| ServeError::Token { token: token.clone(), problem })?;
    Ok(Some(Sha256::digest(text).into()))
}

fn read(token: &Token) -> Result<String, String> {
    let secret = match token {
        Token::Variable(name) => std::env::var(name).map_err(|error| error.to_string())?,
        Token::File(path) => {
            let mut secret = String::new();
            let bound = u64::try_from(TOKEN_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(2);
            let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
            file.take(bound).read_to_string(&mut secret).map_err(|error| error.to_string())?;
            secret
        }
    };
    let secret = secret.trim();
    match secret.len() {
        0 => Err("it is empty".to_owned()),
        TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX if secret.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(secret.to_owned())
        }
        TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX => Err("it has characters that a header cannot hold".to_owned()),
        length if length < TOKEN_BYTES_MIN => Err(format!(
            "it has {length} characters, fewer than {TOKEN_BYTES_MIN}; generate it with `openssl rand -hex 32`"
        )),
        _ => Err(format!("it has more than {TOKEN_BYTES_MAX} characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(content: &str) -> Result<Tokens, ServeError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, content).unwrap();
        Tokens::read(&ServerConfig { read_token: Some(Token::File(path)), ..ServerConfig::default() })
    }

    #[test]
    fn only_the_exact_token_matches() {
        let tokens = in_file("0123456789abcdef\n").unwrap();
        assert_eq!(tokens.right_of(b"0123456789abcdef"), Some(Right::Read));
        for other in ["", "0123456789abcde", "0123456789abcdef\n", "0123456789abcdeg", "0123456789abcdef0"] {
            assert_eq!(tokens.right_of(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn weak_or_missing_tokens_are_rejected() {
        for content in ["", " \n", "short", "0123456789 abcdef", "0123456789abcdeä", &"x".repeat(1_025)] {
            assert!(in_file(content).is_err(), "{content:?}");
        }
        let nowhere = ServerConfig {
            write_token: Some(Token::Variable("TOLLWAY_NO_SUCH".into())),
            ..ServerConfig::default()
        };
        assert!(Tokens::read(&nowhere).is_err());
    }
}
