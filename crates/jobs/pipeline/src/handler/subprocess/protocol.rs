//! The lines between pipeline and handler.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::lines::LINE_BYTES_MAX;
use crate::handler::answer::AnswerFields;
use crate::handler::{Answer, Handed, Task};

#[derive(Serialize)]
struct JobLine<'a> {
    job: JobFields<'a>,
}

#[derive(Serialize)]
struct JobFields<'a> {
    id: u64,
    key: &'a str,
    stage: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    r#try: u32,
    /// Seconds since 1970.
    deadline: f64,
    data: &'a RawValue,
}

/// The line that hands a job over.
pub(super) fn job_line(task: &Task) -> Result<String, String> {
    let job = &task.job;
    // Between the tokens of JSON, a line end is as good as a blank; within a string it is escaped.
    let data: Cow<'_, str> = match job.data.contains(['\n', '\r']) {
        true => job.data.replace(['\n', '\r'], " ").into(),
        false => job.data.as_str().into(),
    };
    let data: &RawValue = serde_json::from_str(data.trim()).map_err(|error| error.to_string())?;
    let fields = JobFields {
        id: job.id.get(),
        key: &job.key,
        stage: job.stage.as_str(),
        group: job.group.as_deref(),
        r#try: task.attempt(),
        deadline: task.deadline.as_millis() as f64 / 1e3,
        data,
    };
    let line = serde_json::to_string(&JobLine { job: fields }).map_err(|error| error.to_string())?;
    Ok(line + "\n")
}

/// The line that lets a call go out.
pub(super) fn go_line(id: u64) -> String {
    format!("{{\"go\":{id}}}\n")
}

/// The line of a guard whose handler cannot be started.
pub(in crate::handler) fn not_started_line(why: &str) -> String {
    format!("{}\n", serde_json::json!({ "not_started": why }))
}

/// What a handler said.
#[derive(Debug, PartialEq)]
pub(super) enum HandlerMessage {
    /// It is about to call the vendor.
    Begin(u64),
    /// Some of what a job hands on, before its answer; or why that cannot be read.
    Part(u64, Result<Vec<Handed>, String>),
    /// The answer of a job. One that cannot be read is the end of its job: another try would bring the same.
    Answer(u64, Answer),
    /// The guard cannot start it.
    NotStarted(String),
}

/// The words that name a job. A line has one of them.
const WORDS: [&str; 6] = ["begin", "part", "done", "retry", "rate_limited", "dead"];

/// What else a line may have.
const KEYS: [&str; 6] = ["outputs", "result", "cost", "error", "detail", "after"];

/// Reads a line. The error says what is wrong with it.
pub(super) fn read(line: &[u8]) -> Result<HandlerMessage, String> {
    let found: BTreeMap<String, &RawValue> =
        serde_json::from_slice(line).map_err(|error| format!("not the protocol's JSON: {error}"))?;
    if let (1, Some(why)) = (found.len(), found.get("not_started")) {
        return serde_json::from_str(why.get())
            .map(HandlerMessage::NotStarted)
            .map_err(|error| error.to_string());
    }
    let mut words = WORDS.into_iter().filter_map(|word| Some((word, found.get(word)?)));
    let (Some((word, id)), None) = (words.next(), words.next()) else {
        let keys: Vec<&String> = found.keys().take(5).collect();
        return Err(format!("a line has one of {}; this has {keys:?}", WORDS.join(", ")));
    };
    let id = serde_json::from_str(id.get()).map_err(|error| format!("`{word}` names no job: {error}"))?;
    Ok(said(word, id, AnswerFields::read(line, &[&[word][..], &KEYS].concat())))
}

fn said(word: &str, id: u64, fields: Result<AnswerFields, String>) -> HandlerMessage {
    let answer = match word {
        "begin" => return HandlerMessage::Begin(id),
        "part" => return HandlerMessage::Part(id, fields.and_then(AnswerFields::outputs)),
        "done" => fields.and_then(AnswerFields::done),
        "retry" => fields.map(AnswerFields::retry),
        "rate_limited" => fields.map(AnswerFields::rate_limited),
        _ => fields.map(AnswerFields::dead),
    };
    let unreadable = |why| Answer::dead(format!("the answer cannot be read: {why}"));
    HandlerMessage::Answer(id, answer.unwrap_or_else(unreadable))
}

/// What a line that is too long was about to say, from its beginning. It must name its job first.
pub(super) fn read_too_long(line: &[u8]) -> Result<HandlerMessage, String> {
    let too_long = format!("a line over {} MiB", LINE_BYTES_MAX >> 20);
    if let Some(id) = job_named_by("done", line) {
        let parts = "hand on in parts, each a line {\"part\": ID, \"outputs\": [...]} before the answer";
        return Ok(HandlerMessage::Answer(id, Answer::dead(format!("the answer is {too_long}: {parts}"))));
    }
    match job_named_by("part", line) {
        Some(id) => Ok(HandlerMessage::Part(id, Err(too_long))),
        None => Err(too_long),
    }
}

/// The job of a line that begins with this word.
fn job_named_by(word: &str, line: &[u8]) -> Option<u64> {
    let rest = skip(line, "{").and_then(|rest| skip(rest, &format!("\"{word}\"")));
    let rest = rest.and_then(|rest| skip(rest, ":"))?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// What comes after this text and blanks around it, if it comes next.
fn skip<'a>(line: &'a [u8], text: &str) -> Option<&'a [u8]> {
    line.trim_ascii_start().strip_prefix(text.as_bytes()).map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_outputs_stay_as_they_were_written() {
        let line =
            br#"{"done": 7, "outputs": [{"data": {"b": 1, "a":  2}, "stage": "x"}], "cost": {"tokens": 3}}"#;
        let Ok(HandlerMessage::Answer(7, Answer::Done { outputs, cost, .. })) = read(line) else { panic!() };
        assert_eq!(outputs, [Handed { stage: Some("x".into()), ..Handed::new(r#"{"b": 1, "a":  2}"#) }]);
        assert_eq!(cost["tokens"], 3);
        assert_eq!(read(br#"{"begin":7}"#), Ok(HandlerMessage::Begin(7)));
        assert!(matches!(
            read(br#"{"retry":7,"error":"e"}"#),
            Ok(HandlerMessage::Answer(7, Answer::Retry { .. }))
        ));
        let after = Some(tollway_core::Span::from_millis(1_500));
        assert!(
            matches!(read(br#"{"rate_limited":7,"after":1.5}"#), Ok(HandlerMessage::Answer(7, Answer::RateLimited { after: read, .. })) if read == after)
        );
    }

    #[test]
    fn lines_outside_the_protocol_are_refused() {
        for line in [
            "",
            "hello",
            "7",
            "{}",
            r#"{"done":1,"retry":1}"#,
            r#"{"done":-1}"#,
            r#"{"done":"1"}"#,
            r#"{"finished":1}"#,
            r#"{"outputs":[{"data":1}]}"#,
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
    }

    /// Its outputs would be lost, on every try.
    #[test]
    fn answer_that_cannot_be_read_is_dead_with_the_reason() {
        for (line, why) in [
            (r#"{"done":1,"outputs":[{"bucket":"b"}]}"#, "unknown field `bucket`"),
            (
                r#"{"done":1,"output":[{"data":1}]}"#,
                "the key \"output\" is unknown; it may have done, outputs",
            ),
            (r#"{"retry":1,"after":"soon"}"#, "invalid type: string"),
        ] {
            let Ok(HandlerMessage::Answer(1, Answer::Dead { error, .. })) = read(line.as_bytes()) else {
                panic!("{line}")
            };
            assert!(error.starts_with("the answer cannot be read: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn line_that_is_too_long_is_the_end_of_the_job_that_it_names() {
        for line in [&br#"{"done":7,"outputs":["#[..], br#" { "done" : 7 , "outputs": ["#] {
            let Ok(HandlerMessage::Answer(7, Answer::Dead { error, .. })) = read_too_long(line) else {
                panic!()
            };
            assert!(error.starts_with("the answer is a line over 1 MiB: hand on in parts"), "{error}");
        }
        assert!(matches!(
            read_too_long(br#"{"part": 12, "outputs": ["#),
            Ok(HandlerMessage::Part(12, Err(_)))
        ));
        for line in ["xxxx", "{\"outputs\": [", "{\"done\": [", ""] {
            assert_eq!(read_too_long(line.as_bytes()), Err("a line over 1 MiB".to_owned()), "{line}");
        }
    }

    #[test]
    fn parts_and_a_guard_without_a_handler_are_read() {
        let said = read(br#"{"part": 7, "outputs": [{"data": 1}]}"#);
        assert_eq!(said, Ok(HandlerMessage::Part(7, Ok(vec![Handed::new("1")]))));
        let line = not_started_line("\"x\" cannot be started");
        assert_eq!(
            read(line.as_bytes()),
            Ok(HandlerMessage::NotStarted("\"x\" cannot be started".to_owned()))
        );
    }
}
