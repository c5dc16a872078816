//! Answers of language models, whole and streamed: `tollway-dialects` reads their usage.

use http::{Method, StatusCode};
use tollway_dialects::{TokenUsage, UsageReader};
use tollway_vendor::server::VendorServer;

use crate::client::{Got, send, settings, start};

/// 120 bytes, which are 30 tokens.
fn request(members: &str) -> String {
    let body = format!("{{\"model\":\"m-1\",{members}\"text\":\"\"}}");
    body.replace("\"\"", &format!("\"{}\"", "x".repeat(120 - body.len())))
}

fn usage(got: &Got) -> Option<TokenUsage> {
    let mut reader = UsageReader::new();
    // Chunks may end anywhere.
    got.body.chunks(7).for_each(|chunk| reader.feed(chunk));
    reader.usage()
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";
const GENERATE: &str = "/v1beta/models/gemini-x:generateContent";
const STREAM: &str = "/v1beta/models/gemini-x:streamGenerateContent";

#[tokio::test]
async fn usage_of_every_api_is_read_whole_and_streamed() {
    let vendor = start(&["100 / hour"]).await;
    let asks = "\"stream\":true,\"stream_options\":{\"include_usage\":true},";
    for (path, members, streamed) in [
        (CHAT.to_owned(), "", false),
        (CHAT.to_owned(), asks, true),
        (MESSAGES.to_owned(), "\"max_tokens\":1000,", false),
        (MESSAGES.to_owned(), "\"stream\":true,", true),
        (GENERATE.to_owned(), "", false),
        (format!("{STREAM}?alt=sse"), "", true),
        (STREAM.to_owned(), "", false),
    ] {
        let got = send(&vendor, Method::POST, &path, request(members)).await;
        assert_eq!(got.status, StatusCode::OK);
        let expected = Some(TokenUsage { input: 30, cached_input: 0, output: 30 });
        assert_eq!(usage(&got), expected, "{path}: {}", String::from_utf8_lossy(&got.body));
        let content_type = got.headers["content-type"].to_str().unwrap();
        assert_eq!(content_type == "text/event-stream", streamed, "{path}");
        if streamed {
            assert!(got.body.windows(6).filter(|part| part == b"data: ").count() > 2, "{path}");
            assert_eq!(got.headers["transfer-encoding"], "chunked");
        }
    }
}

#[tokio::test]
async fn shapes_are_those_of_the_vendors() {
    let vendor = start(&["100 / hour"]).await;
    let send = async |path, members: &str| send(&vendor, Method::POST, path, request(members)).await;
    let chat = send(CHAT, "\"max_tokens\":2,").await.json();
    assert_eq!(chat["choices"][0]["message"]["content"], "word word");
    assert_eq!((&chat["model"], &chat["usage"]["completion_tokens"]), (&"m-1".into(), &2.into()));
    let message = send(MESSAGES, "\"max_tokens\":1,").await.json();
    assert_eq!((&message["type"], &message["content"][0]["text"]), (&"message".into(), &"word".into()));
    let generated = send(GENERATE, "\"generationConfig\":{\"maxOutputTokens\":2},").await.json();
    assert_eq!(generated["candidates"][0]["content"]["parts"][0]["text"], "word word");
    assert_eq!(generated["usageMetadata"]["candidatesTokenCount"], 2);
    let array = send(STREAM, "").await.json();
    assert!(array.as_array().unwrap().len() > 1, "{array}");
    // OpenAI tells the usage of a stream on request only.
    let silent = send(CHAT, "\"stream\":true,").await;
    assert_eq!(usage(&silent), None);
    assert!(silent.body.ends_with(b"data: [DONE]\n\n"));
}

/// A quota of tokens counts input and output; Gemini's counts the input.
#[tokio::test]
async fn tokens_are_counted_before_the_answer() {
    for (dialect, limit, accepted) in [("openai", "150 tokens / hour", 2), ("gemini", "150 tokens / hour", 5)]
    {
        let settings = settings(&[limit]).0.dialect(dialect).unwrap();
        let vendor = VendorServer::start(settings).await.unwrap();
        for _ in 0..6 {
            send(&vendor, Method::POST, CHAT, request("")).await;
        }
        assert_eq!(vendor.counts().accepted, accepted, "{dialect}");
    }
}
