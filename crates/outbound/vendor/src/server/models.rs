//! Calls of language models: OpenAI's chat completions, Anthropic's messages and Gemini's `generateContent`, whole and
//! streamed.
//!
//! Tokens are derived from bytes. The input is a quarter of the request's bytes, rounded up. The output is as long as the
//! input, at most what the request allows, and at most 4,096.

use http::Method;
use http::request::Parts;
use serde_json::{Value, json};

const BYTES_PER_TOKEN: usize = 4;

/// The longest answer, whatever a request allows.
const OUTPUT_MAX: u64 = 4_096;

/// The parts into which a streamed text is divided, at most.
const CHUNKS_MAX: u64 = 16;

/// One token of the answer's text.
const TOKEN_TEXT: &str = "word";

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

/// A call of a language model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModelCall {
    api: Api,
    streamed: bool,
    /// OpenAI sends the usage of a stream on request only.
    stream_usage: bool,
    model: String,
    pub(super) input: u64,
    pub(super) output: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    OpenAi,
    Anthropic,
    Gemini,
    /// Gemini's stream without `alt=sse`: an array.
    GeminiArray,
}

/// Tokens of a request.
pub(super) fn tokens_of(body: &[u8]) -> u64 {
    body.len().div_ceil(BYTES_PER_TOKEN) as u64
}

impl ModelCall {
    /// `None` if the path is that of no language model.
    pub(super) fn read(head: &Parts, body: &[u8]) -> Option<Self> {
        let path = head.uri.path();
        let is_sse = head.uri.query().is_some_and(|query| query.split('&').any(|part| part == "alt=sse"));
        let api = match path {
            _ if head.method != Method::POST => return None,
            _ if path.ends_with("/chat/completions") => Api::OpenAi,
            _ if path.ends_with("/v1/messages") => Api::Anthropic,
            _ if path.ends_with(":streamGenerateContent") && !is_sse => Api::GeminiArray,
            _ if path.ends_with(":generateContent") || path.ends_with(":streamGenerateContent") => {
                Api::Gemini
            }
            _ => return None,
        };
        // A body that is no JSON still gets an answer: only its length matters.
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        let number = |pointer: &str| request.pointer(pointer).and_then(Value::as_u64);
        let allowed = ["/max_tokens", "/max_completion_tokens", "/generationConfig/maxOutputTokens"];
        let allowed = allowed.into_iter().find_map(number).unwrap_or(OUTPUT_MAX).min(OUTPUT_MAX);
        let is_true = |pointer: &str| request.pointer(pointer) == Some(&Value::Bool(true));
        let in_path = path.rsplit('/').next().and_then(|last| last.split(':').next());
        let model = request.get("model").and_then(Value::as_str).or(in_path.filter(|_| api.is_gemini()));
        let input = tokens_of(body);
        Some(Self {
            api,
            streamed: if api.is_gemini() { path.contains(":stream") } else { is_true("/stream") },
            stream_usage: is_true("/stream_options/include_usage"),
            model: model.unwrap_or("simulated").chars().take(100).collect(),
            input,
            output: input.clamp(1, allowed.max(1)),
        })
    }

    /// The content type, and the parts of the body.
    pub(super) fn answer(&self) -> (&'static str, Vec<Vec<u8>>) {
        match (self.api, self.streamed) {
            (Api::OpenAi, false) => (JSON, vec![self.openai().to_string().into_bytes()]),
            (Api::Anthropic, false) => (JSON, vec![self.anthropic().to_string().into_bytes()]),
            (Api::Gemini | Api::GeminiArray, false) => {
                (JSON, vec![self.gemini(&text(self.output), true).to_string().into_bytes()])
            }
            (Api::OpenAi, true) => (EVENT_STREAM, self.openai_events()),
            (Api::Anthropic, true) => (EVENT_STREAM, self.anthropic_events()),
            (Api::Gemini, true) => {
                let events = self.gemini_chunks().into_iter().map(|chunk| event(None, &chunk.to_string()));
                (EVENT_STREAM, events.collect())
            }
            (Api::GeminiArray, true) => (JSON, array(&self.gemini_chunks())),
        }
    }

    fn openai(&self) -> Value {
        json!({
            "id": "chatcmpl-simulated",
            "object": "chat.completion",
            "model": self.model,
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text(self.output)},
                "finish_reason": "stop",
            }],
            "usage": self.openai_usage(),
        })
    }

    fn openai_usage(&self) -> Value {
        let (input, output) = (self.input, self.output);
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output)})
    }

    fn openai_events(&self) -> Vec<Vec<u8>> {
        let chunk = |choices: Value, usage: Value| {
            let (id, object) = ("chatcmpl-simulated", "chat.completion.chunk");
            json!({"id": id, "object": object, "model": self.model, "choices": choices, "usage": usage})
        };
        let delta = |text: String| json!([{"index": 0, "delta": {"content": text}, "finish_reason": null}]);
        let mut chunks: Vec<Value> =
            chunks(self.output).map(|text| chunk(delta(text), Value::Null)).collect();
        chunks.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), Value::Null));
        if self.stream_usage {
            chunks.push(chunk(json!([]), self.openai_usage()));
        }
        let events = chunks.iter().map(|chunk| event(None, &chunk.to_string()));
        events.chain([event(None, "[DONE]")]).collect()
    }

    fn anthropic(&self) -> Value {
        json!({
            "id": "msg_simulated",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [{"type": "text", "text": text(self.output)}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": self.input, "output_tokens": self.output},
        })
    }

    fn anthropic_events(&self) -> Vec<Vec<u8>> {
        let mut message = self.anthropic();
        message["content"] = json!([]);
        message["stop_reason"] = Value::Null;
        message["usage"]["output_tokens"] = json!(1);
        let block = json!({"type": "text", "text": ""});
        let mut events = vec![
            json!({"type": "message_start", "message": message}),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
        ];
        events.extend(chunks(self.output).map(|text| {
            let delta = json!({"type": "text_delta", "text": text});
            json!({"type": "content_block_delta", "index": 0, "delta": delta})
        }));
        let usage = json!({"output_tokens": self.output});
        events.extend([
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ]);
        events.iter().map(|data| event(data["type"].as_str(), &data.to_string())).collect()
    }

    fn gemini(&self, text: &str, is_last: bool) -> Value {
        let (input, output) = (self.input, self.output);
        let mut usage = json!({"promptTokenCount": input, "totalTokenCount": input});
        if is_last {
            usage["candidatesTokenCount"] = json!(output);
            usage["totalTokenCount"] = json!(input.saturating_add(output));
        }
        let content = json!({"role": "model", "parts": [{"text": text}]});
        let finish = is_last.then_some("STOP");
        json!({
            "candidates": [{"index": 0, "content": content, "finishReason": finish}],
            "usageMetadata": usage,
            "modelVersion": self.model,
        })
    }

    fn gemini_chunks(&self) -> Vec<Value> {
        let texts: Vec<String> = chunks(self.output).collect();
        let last = texts.len() - 1;
        texts.iter().enumerate().map(|(place, text)| self.gemini(text, place == last)).collect()
    }
}

impl Api {
    fn is_gemini(self) -> bool {
        matches!(self, Self::Gemini | Self::GeminiArray)
    }
}

fn text(tokens: u64) -> String {
    vec![TOKEN_TEXT; tokens as usize].join(" ")
}

/// The text of an answer in up to 16 parts.
fn chunks(tokens: u64) -> impl Iterator<Item = String> {
    let size = tokens.div_ceil(CHUNKS_MAX).max(1);
    (0..tokens.div_ceil(size).max(1)).map(move |part| text(size.min(tokens.saturating_sub(part * size))))
}

/// A server-sent event.
fn event(name: Option<&str>, data: &str) -> Vec<u8> {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n").into_bytes()
}

/// A JSON array, one part for each element.
fn array(elements: &[Value]) -> Vec<Vec<u8>> {
    let begin = |place| if place == 0 { "[" } else { ",\n" };
    let parts = elements.iter().enumerate();
    let parts = parts.map(|(place, element)| format!("{}{element}", begin(place)).into_bytes());
    parts.chain([b"]".to_vec()]).collect()
}
