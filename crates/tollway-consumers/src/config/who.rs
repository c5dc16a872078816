//! How a request shows which consumer calls.

use std::path::PathBuf;

use tollway_config::Section;

/// How a request shows which consumer calls. Without either way, every caller over HTTP is anonymous; Envoy names consumers
/// by descriptors in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhoCalls {
    /// A header that holds the consumer's id, in lower case. It must be one that only what stands in front can set.
    pub header: Option<String>,
    /// Tokens that stand for consumers.
    pub tokens: Option<ConsumerTokens>,
}

/// Tokens that stand for consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerTokens {
    /// The header that a token comes in, in lower case; in `authorization`, after `Bearer` or in `DirectLogin token="..."`.
    pub header: String,
    /// A file with a line `CONSUMER SHA-256` for each token: what is kept there opens nothing.
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
