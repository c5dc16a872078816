//! The tokens that an answer of a language model says it used.

use serde_json::{Map, Value};

use crate::durations::COUNT_MAX;
use crate::usage_scanner::UsageScanner;

/// The tokens of one call. Vendors count differently; these are the same for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// All tokens of the prompt, also those that were read from a cache.
    pub input: u64,
    /// Those of `input` that were read from a cache. Anthropic does not count them against its limits.
    pub cached_input: u64,
    /// All tokens of the answer, also those of reasoning that is not shown.
    pub output: u64,
}

impl TokenUsage {
    /// The usage in a complete answer of OpenAI (chat completions and responses), Anthropic or Gemini.
    ///
    /// ```
    /// use tollway_dialects::TokenUsage;
    ///
    /// let answer = br#"{"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 30, "total_tokens": 42}}"#;
    /// let usage = TokenUsage::in_answer(answer);
    /// assert_eq!(usage, Some(TokenUsage { input: 12, cached_input: 0, output: 30 }));
    /// ```
    pub fn in_answer(body: &[u8]) -> Option<Self> {
        let mut reader = UsageReader::new();
        reader.feed(body);
        reader.usage()
    }

    /// Input and output together.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Reads the usage of an answer that arrives in chunks: server-sent events, or JSON of any length.
///
/// Chunks may end anywhere. Memory is bounded, however long the answer is. A stream that breaks off has the usage that
/// was sent until then: Anthropic and Gemini send it more than once, OpenAI only at the end.
///
/// ```
/// use tollway_dialects::{TokenUsage, UsageReader};
///
/// let mut reader = UsageReader::new();
/// reader.feed(b"event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 25, \"output_");
/// reader.feed(b"tokens\": 1}}}\n\nevent: message_delta\ndata: {\"usage\": {\"output_tokens\": 15}}\n\n");
/// assert_eq!(reader.usage(), Some(TokenUsage { input: 25, cached_input: 0, output: 15 }));
/// ```
#[derive(Debug, Default)]
pub struct UsageReader {
    scanner: UsageScanner,
    counts: UsageCounts,
}

/// The counts under the vendors' own names; those sent last win.
#[derive(Debug, Default)]
struct UsageCounts {
    found: bool,
    input: u64,
    /// Read from a cache and part of `input`: OpenAI, Gemini.
    cached: u64,
    /// Read from a cache or written to it, and not part of `input`: Anthropic.
    cache_read: u64,
    cache_written: u64,
    /// Not part of `input`: Gemini.
    tool_input: u64,
    output: u64,
    /// Not part of `output`: Gemini.
    thoughts: u64,
}

impl UsageReader {
    /// A reader that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        let Self { scanner, counts } = self;
        scanner.feed(chunk, |usage| match serde_json::from_slice(usage) {
            Ok(Value::Object(usage)) => counts.read(&usage),
            _ => tracing::debug!("ignored a usage that is not an object"),
        });
    }

    /// The usage so far.
    pub fn usage(&self) -> Option<TokenUsage> {
        let UsageCounts { found, input, cached, cache_read, cache_written, tool_input, output, thoughts } =
            self.counts;
        found.then(|| TokenUsage {
            input: sum([input, cache_read, cache_written, tool_input]),
            cached_input: sum([cached, cache_read]),
            output: sum([output, thoughts]),
        })
    }
}

fn sum<const N: usize>(counts: [u64; N]) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add).min(COUNT_MAX)
}

impl UsageCounts {
    fn read(&mut self, usage: &Map<String, Value>) {
        let sane = |value: &Value| value.as_u64().filter(|count| *count <= COUNT_MAX);
        let number = |key: &str| usage.get(key).and_then(sane);
        let cached = |group: &str| usage.get(group)?.get("cached_tokens").and_then(sane);
        let mut set = |count: &mut u64, told: Option<u64>| {
            if let Some(told) = told {
                *count = told;
                self.found = true;
            }
        };
        let input = ["prompt_tokens", "input_tokens", "promptTokenCount"];
        let output = ["completion_tokens", "output_tokens", "candidatesTokenCount"];
        let details = ["prompt_tokens_details", "input_tokens_details"];
        set(&mut self.input, input.into_iter().find_map(number));
        set(&mut self.output, output.into_iter().find_map(number));
        set(&mut self.cached, details.into_iter().find_map(cached));
        set(&mut self.cached, number("cachedContentTokenCount"));
        set(&mut self.cache_read, number("cache_read_input_tokens"));
        set(&mut self.cache_written, number("cache_creation_input_tokens"));
        set(&mut self.tool_input, number("toolUsePromptTokenCount"));
        set(&mut self.thoughts, number("thoughtsTokenCount"));
    }
}
