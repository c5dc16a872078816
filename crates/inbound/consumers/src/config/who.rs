//! How a request identifies its consumer.

use std::path::PathBuf;

use tollway_config::Section;

/// How a request identifies its consumer. With neither way configured, every HTTP caller is anonymous; Envoy always names
/// consumers in descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhoCalls {
    /// The lower-case name of a header with the consumer's id. Only the proxy in front may be able to set it.
    pub header: Option<String>,
    /// Tokens that identify consumers.
    pub tokens: Option<ConsumerTokens>,
}

/// Tokens that identify consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerTokens {
    /// The lower-case name of the header with the token; in `authorization`, after `Bearer` or in `DirectLogin token="..."`.
    pub header: String,
    /// A file with a line `CONSUMER SHA-256` for each token. It holds no token itself.
    pub file: PathBuf,
}

impl WhoCalls {
    pub(super) fn path_mut(&mut self) -> Option<&mut PathBuf> {
        self.tokens.as_mut().map(|tokens| &mut tokens.file)
    }
}

pub(super) fn read(section: &mut Section<'_>) -> WhoCalls {
    let header = header(section, "header", "x-consumer-id");
    let tokens = section.section("tokens").and_then(read_tokens);
    WhoCalls { header, tokens }
}

fn read_tokens(mut section: Section<'_>) -> Option<ConsumerTokens> {
    section.required("file", "\"consumer-tokens\"");
    let file = section.string("file", "consumer-tokens").map(|path| PathBuf::from(*path.get_ref()));
    let header = header(&mut section, "header", "authorization");
    section.finish();
    Some(ConsumerTokens { header: header.unwrap_or_else(|| "authorization".to_owned()), file: file? })
}

fn header(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<String> {
    let text = section.string(key, example)?;
    let name = text.get_ref().to_ascii_lowercase();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(fits) {
        let message = format!("{:?} is not a header's name", text.get_ref());
        section.report().problem(text.span(), message, format!("write it like {example:?}"));
        return None;
    }
    Some(name)
}
