//! Where tokens and certificates are kept. The config never contains a secret.

use std::path::PathBuf;

/// Where a token is kept.
pub use tollway_config::SecretSource as Token;
use tollway_config::Section;

use crate::bounds::NAMED_TOKENS_MAX;

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

pub(super) fn read_token(section: &mut Section<'_>, key: &'static str) -> Option<Token> {
    Token::of_key(section, key, "env:TOLLWAY_TOKEN")
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
