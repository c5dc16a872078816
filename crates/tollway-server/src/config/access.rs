//! Where tokens and certificates are kept. The config never contains a secret.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tollway_config::Section;

use crate::bounds::NAMED_TOKENS_MAX;

/// Where a token is kept. The config does not contain it, because configs are copied and shown more often than a secret
/// should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// `env:NAME`: in this environment variable.
    Variable(String),
    /// `file:PATH`: in this file, which holds nothing else.
    File(PathBuf),
}

impl Token {
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Variable(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

impl FromStr for Token {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            // The message does not repeat the text, which may be the secret.
            _ => Err("this does not say where the token is; write env:NAME or file:PATH"),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A token of one person or program, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedToken {
    /// The name in the log.
    pub name: String,
    /// Where it is kept.
    pub token: Token,
    /// What it allows.
    pub right: TokenRight,
}

/// What a named token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRight {
    /// Decisions over HTTP and gRPC.
    Decide,
    /// Reading the administration.
    Read,
    /// Reading and changing.
    Write,
}

const RIGHTS: [(&str, TokenRight); 3] =
    [("read", TokenRight::Read), ("write", TokenRight::Write), ("decide", TokenRight::Decide)];

/// The keys of `[server.tokens]`, which the log uses as names.
const KEYS: [&str; 5] = ["read", "write", "decisions", "resp", "permits"];

/// The tokens of `[server.tokens]`.
#[derive(Default)]
pub(super) struct ReadTokens {
    /// Those of [`KEYS`].
    pub(super) keys: [Option<Token>; 5],
    pub(super) named: Vec<NamedToken>,
}

pub(super) fn read_tokens(mut section: Section<'_>) -> ReadTokens {
    let keys = KEYS.map(|key| read_token(&mut section, key));
    let named = read_named(&mut section);
    section.finish();
    ReadTokens { keys, named }
}

fn read_token(section: &mut Section<'_>, key: &'static str) -> Option<Token> {
    let text = section.string(key, "env:TOLLWAY_TOKEN")?;
    let wrong = |message: &str| section.report().problem(text.span(), message, "");
    text.get_ref().parse().map_err(wrong).ok()
}

/// `[server.tokens.named.NAME]`.
fn read_named(section: &mut Section<'_>) -> Vec<NamedToken> {
    let sections = section.named_sections("named");
    if sections.len() > NAMED_TOKENS_MAX {
        section.problem("named", format!("more than {NAMED_TOKENS_MAX} named tokens"), "remove some");
    }
    let mut named = Vec::with_capacity(sections.len().min(NAMED_TOKENS_MAX));
    for (name, mut of_name) in sections.into_iter().take(NAMED_TOKENS_MAX) {
        if !is_token_name(name.get_ref()) {
            let message = format!("{:?} cannot be the name of a token", name.get_ref());
            let advice =
                "use up to 64 letters, digits, - and _, but none of read, write, decisions, resp, permits";
            section.report().problem(name.span(), message, advice);
        }
        of_name.required("token", "\"env:TOLLWAY_TOKEN\"");
        of_name.required("rights", "\"read\"");
        let (token, right) = (read_token(&mut of_name, "token"), of_name.choice("rights", &RIGHTS));
        of_name.finish();
        if let (Some(token), Some(right)) = (token, right) {
            named.push(NamedToken { name: (*name.get_ref()).to_owned(), token, right });
        }
    }
    named
}

/// Names are in log lines, beside those of the other tokens.
fn is_token_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(fits) && !KEYS.contains(&name)
}

pub(super) fn read_tls(mut section: Section<'_>) -> Option<TlsFiles> {
    let mut path = |key: &'static str, example: &'static str| {
        section.required(key, example)?;
        section.string(key, example).map(|path| PathBuf::from(*path.get_ref()))
    };
    let files = path("certificate", "\"server.pem\"").zip(path("key", "\"server.key\""));
    section.finish();
    files.map(|(certificate, key)| TlsFiles { certificate, key })
}
