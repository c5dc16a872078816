//! Tokens used, in whole and in streamed answers.

use tollway_dialects::{TokenUsage, UsageReader};

fn usage(input: u64, cached_input: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage { input, cached_input, output })
}

/// The usage is the same however the answer is cut.
fn read(answer: &str) -> Option<TokenUsage> {
    let whole = TokenUsage::in_answer(answer.as_bytes());
    for size in [1, 2, 7, 64] {
        let mut reader = UsageReader::new();
        answer.as_bytes().chunks(size).for_each(|chunk| reader.feed(chunk));
        assert_eq!(reader.usage(), whole, "in chunks of {size}");
    }
    whole
}

#[test]
fn openai_chat_completion() {
    let answer = r#"{"id":"c","choices":[{"message":{"role":"assistant","content":"{\"usage\": {\"prompt_tokens\": 9}}"}}],
        "usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,
        "prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":4}}}"#;
    assert_eq!(read(answer), usage(19, 8, 10));
}

#[test]
fn openai_chat_completion_streamed() {
    let answer = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":10,\"total_tokens\":29}}\n\n\
        data: [DONE]\n\n";
    assert_eq!(read(answer), usage(19, 0, 10));
}

#[test]
fn openai_response() {
    let answer = r#"{"id":"r","object":"response","usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":12},
        "output_tokens":87,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":123}}"#;
    assert_eq!(read(answer), usage(36, 12, 87));
}

#[test]
fn openai_response_streamed() {
    let answer = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n\
        event: response.output_text.delta\ndata: {\"delta\":\"{\\\"usage\\\":{\\\"input_tokens\\\":1}}\"}\n\n\
        event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\
        \"usage\":{\"input_tokens\":36,\"output_tokens\":87,\"total_tokens\":123}}}\r\n\r\n";
    assert_eq!(read(answer), usage(36, 0, 87));
}

#[test]
fn anthropic_message() {
    let answer = r#"{"type":"message","content":[{"type":"tool_use","input":{"usage":{"input_tokens":999999}}}],
        "usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":15}}"#;
    assert_eq!(read(answer), usage(1_125, 1_000, 15));
}

#[test]
fn anthropic_message_streamed() {
    let answer = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[],\
        \"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":7,\"output_tokens\":1}}}\n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\
        \"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    assert_eq!(read(answer), usage(32, 7, 15));
}

#[test]
fn stream_that_breaks_off_has_what_was_sent() {
    let answer = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n\
        event: message_delta\ndata: {\"usage\":{\"output_tok";
    assert_eq!(read(answer), usage(25, 0, 1));
}

#[test]
fn event_after_a_broken_one_is_read() {
    let answer =
        "data: {\"a\": {\"b\": [\"\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    assert_eq!(read(answer), usage(3, 0, 4));
}

#[test]
fn gemini_answer() {
    let answer = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{"usageMetadata":{"promptTokenCount":1}}}}]}}],
        "usageMetadata":{"promptTokenCount":264,"cachedContentTokenCount":100,"toolUsePromptTokenCount":6,
        "candidatesTokenCount":80,"thoughtsTokenCount":20,"totalTokenCount":370}}"#;
    assert_eq!(read(answer), usage(270, 100, 100));
}

#[test]
fn gemini_streamed_as_events_and_as_an_array() {
    let parts = [
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":4,"totalTokenCount":4}}"#,
        r#"{"candidates":[],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":9,"totalTokenCount":13}}"#,
    ];
    assert_eq!(read(&format!("data: {}\n\ndata: {}\n\n", parts[0], parts[1])), usage(4, 0, 9));
    assert_eq!(read(&format!("[{}\n,\n{}]", parts[0], parts[1])), usage(4, 0, 9));
}

#[test]
fn groq_streamed() {
    let answer = "data: {\"choices\":[],\"x_groq\":{\"id\":\"q\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}}\n\n";
    assert_eq!(read(answer), usage(3, 0, 4));
}

#[test]
fn nonsense_is_no_usage() {
    let long = format!(r#"{{"usage":{{"prompt_tokens":1,"x":"{}"}}}}"#, "y".repeat(10_000));
    for nonsense in [
        "",
        "{}",
        r#"{"usage":null}"#,
        r#"{"usage":[1]}"#,
        r#"{"usage":{}}"#,
        r#"{"usage":{"prompt_tokens":-1}}"#,
        r#"{"usage":{"prompt_tokens":9007199254740992}}"#,
        r#"{"other":{"usage":{"prompt_tokens":1}}}"#,
        r#"{"message":{"deeper":{"usage":{"prompt_tokens":1}}}}"#,
        r#"{"message":[{"usage":{"prompt_tokens":1}}]}"#,
        r#"{"usage":{"prompt_tokens":"1"}}"#,
        &long,
    ] {
        assert_eq!(read(nonsense), None, "{nonsense}");
    }
}

#[test]
fn usage_behind_one_that_is_too_long_is_read() {
    let answer = format!(
        "data: {{\"usage\":{{\"x\":\"{}\"}}}}\n\ndata: {{\"usage\":{{\"prompt_tokens\":1}}}}\n\n",
        "y".repeat(10_000)
    );
    assert_eq!(read(&answer), usage(1, 0, 0));
}
