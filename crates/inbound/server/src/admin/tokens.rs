//! Tokens: reading them from their files or variables, and comparing them.

use std::sync::Arc;

use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tollway::Secret;

use crate::bounds::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN};
use crate::{NamedToken, ServeError, ServerConfig, Token, TokenRight};

/// What a token allows. A write token may read, too; the others are for one thing each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// The Redis protocol.
    Resp,
    /// Decisions over HTTP and gRPC.
    Decide,
    /// Reading the administration.
    Read,
    /// Reading and changing.
    Write,
}

impl From<TokenRight> for Right {
    fn from(right: TokenRight) -> Self {
        match right {
            TokenRight::Decide => Self::Decide,
            TokenRight::Read => Self::Read,
            TokenRight::Write => Self::Write,
        }
    }
}

impl Right {
    fn includes(self, needed: Self) -> bool {
        self == needed || (self, needed) == (Self::Write, Self::Read)
    }
}

/// The tokens in force.
pub(crate) struct Tokens {
    /// A random key of this process. Tokens are compared by their HMACs, so that the time of a comparison does not depend
    /// on how much of a guess is right.
    key: Hmac<Sha256>,
    known: Vec<KnownToken>,
}

struct KnownToken {
    right: Right,
    /// Its name in the config, for the log.
    name: Arc<str>,
    digest: CtOutput<Hmac<Sha256>>,
}

impl Tokens {
    /// None, with a random key.
    fn none() -> Result<Self, ServeError> {
        let mut key = hmac::digest::Key::<Hmac<Sha256>>::default();
        getrandom::fill(&mut key).map_err(|error| ServeError::Machine(error.to_string()))?;
        Ok(Self { key: Hmac::new(&key), known: Vec::new() })
    }

    /// A token that is in no config.
    pub(super) fn of_one(right: Right, name: &str, token: &str) -> Result<Self, ServeError> {
        let mut tokens = Self::none()?;
        let digest = tokens.digest(token.as_bytes());
        tokens.known.push(KnownToken { right, name: name.into(), digest });
        Ok(tokens)
    }

    /// Tokens that guard the administration, and that no one knows: those of the config cannot be read.
    pub(crate) fn no_one_knows() -> Result<Self, ServeError> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| ServeError::Machine(error.to_string()))?;
        let mut tokens = Self::none()?;
        for right in [Right::Read, Right::Write] {
            random[0] = right as u8;
            let digest = tokens.digest(&random);
            tokens.known.push(KnownToken { right, name: "unreadable".into(), digest });
        }
        Ok(tokens)
    }

    /// Reads the tokens that the config names.
    pub(crate) fn read(config: &ServerConfig) -> Result<Self, ServeError> {
        let mut tokens = Self::none()?;
        let own = [
            (Right::Read, "read", &config.read_token),
            (Right::Write, "write", &config.write_token),
            (Right::Decide, "decisions", &config.decisions_token),
            (Right::Resp, "resp", &config.resp_token),
        ];
        for (right, name, token) in own {
            token.iter().try_for_each(|token| tokens.add(right, name, token))?;
        }
        for NamedToken { name, token, right } in &config.named_tokens {
            tokens.add(Right::from(*right), name, token)?;
        }
        Ok(tokens)
    }

    /// Reads a token and adds it. Two that are equal are a mistake: one of them allows more than its name says.
    fn add(&mut self, right: Right, name: &str, token: &Token) -> Result<(), ServeError> {
        let wrong = |problem| ServeError::Token { token: token.clone(), problem };
        let digest = self.digest(read(token).map_err(wrong)?.as_bytes());
        if let Some(same) = self.known.iter().find(|known| known.digest == digest) {
            let same = &same.name;
            return Err(wrong(format!(
                "it is the same as the token `{same}`; generate another, as with `openssl rand -hex 32`"
            )));
        }
        self.known.push(KnownToken { right, name: name.into(), digest });
        Ok(())
    }

    /// Whether no token of the administration is configured.
    pub(crate) fn administration_has_none(&self) -> bool {
        !self.guard(Right::Read) && !self.guard(Right::Write)
    }

    /// Whether there is a token for this.
    pub(crate) fn guard(&self, right: Right) -> bool {
        self.known.iter().any(|known| known.right == right)
    }

    /// The name of this token if it has the right.
    pub(crate) fn find(&self, token: &[u8], needed: Right) -> Result<Arc<str>, TokenMismatch> {
        let digest = self.digest(token);
        // Compares with all, so that the time does not tell which one matches. No two are equal.
        let matching = self
            .known
            .iter()
            .fold(None, |found, known| if known.digest == digest { Some(known) } else { found });
        match matching {
            None => Err(TokenMismatch::Unknown),
            Some(known) if known.right.includes(needed) => Ok(Arc::clone(&known.name)),
            Some(_) => Err(TokenMismatch::LacksRight),
        }
    }

    fn digest(&self, token: &[u8]) -> CtOutput<Hmac<Sha256>> {
        self.key.clone().chain_update(token).finalize()
    }
}

/// Why a token does not open something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenMismatch {
    Unknown,
    /// It is one of the config, for something else.
    LacksRight,
}

/// The secret that signs permits, if the config names one.
pub(crate) fn read_permit_secret(config: &ServerConfig) -> Result<Option<Secret>, ServeError> {
    let Some(token) = &config.permits_token else { return Ok(None) };
    let text = read(token).map_err(|problem| ServeError::Token { token: token.clone(), problem })?;
    Ok(Some(Sha256::digest(text).into()))
}

fn read(token: &Token) -> Result<String, String> {
    let secret = token.read(TOKEN_BYTES_MAX)?;
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
        assert_eq!(tokens.find(b"0123456789abcdef", Right::Read).as_deref(), Ok("read"));
        for other in ["", "0123456789abcde", "0123456789abcdef\n", "0123456789abcdeg", "0123456789abcdef0"] {
            assert_eq!(tokens.find(other.as_bytes(), Right::Read), Err(TokenMismatch::Unknown), "{other:?}");
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
