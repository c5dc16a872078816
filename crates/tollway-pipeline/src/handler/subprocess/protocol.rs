//! The lines between pipeline and handler.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::handler::answer::AnswerFields;
use crate::handler::{Answer, Task};

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

/// What a handler said.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// It is about to call the vendor.
    Begin(u64),
    /// The answer of a job.
    Answer(u64, Answer),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SaidLine {
    begin: Option<u64>,
    done: Option<u64>,
    retry: Option<u64>,
    rate_limited: Option<u64>,
    dead: Option<u64>,
    #[serde(flatten)]
    rest: BTreeMap<String, serde::de::IgnoredAny>,
}

/// Reads a line. The error says what is wrong with it.
pub(super) fn read(line: &[u8]) -> Result<Said, String> {
    let said: SaidLine =
        serde_json::from_slice(line).map_err(|error| format!("not the protocol's JSON: {error}"))?;
    let fields = || -> Result<AnswerFields, String> {
        serde_json::from_slice(line).map_err(|error| format!("an answer that cannot be read: {error}"))
    };
    match said {
        SaidLine { begin: Some(id), done: None, retry: None, rate_limited: None, dead: None, .. } => {
            Ok(Said::Begin(id))
        }
        SaidLine { begin: None, done: Some(id), retry: None, rate_limited: None, dead: None, .. } => {
            Ok(Said::Answer(id, fields()?.done()?))
        }
        SaidLine { begin: None, done: None, retry: Some(id), rate_limited: None, dead: None, .. } => {
            Ok(Said::Answer(id, fields()?.retry()))
        }
        SaidLine { begin: None, done: None, retry: None, rate_limited: Some(id), dead: None, .. } => {
            Ok(Said::Answer(id, fields()?.rate_limited()))
        }
        SaidLine { begin: None, done: None, retry: None, rate_limited: None, dead: Some(id), .. } => {
            Ok(Said::Answer(id, fields()?.dead()))
        }
        SaidLine { rest, .. } => {
            let keys: Vec<String> = rest.into_keys().take(5).collect();
            Err(format!("a line has one of begin, done, retry, rate_limited and dead; this has {keys:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Handed;

    #[test]
    fn answers_are_read_and_outputs_stay_as_they_were_written() {
        let line =
            br#"{"done": 7, "outputs": [{"data": {"b": 1, "a":  2}, "stage": "x"}], "cost": {"tokens": 3}}"#;
        let Ok(Said::Answer(7, Answer::Done { outputs, cost, .. })) = read(line) else { panic!() };
        assert_eq!(outputs, [Handed { stage: Some("x".into()), ..Handed::new(r#"{"b": 1, "a":  2}"#) }]);
        assert_eq!(cost["tokens"], 3);
        assert_eq!(read(br#"{"begin":7}"#), Ok(Said::Begin(7)));
        assert!(matches!(read(br#"{"retry":7,"error":"e"}"#), Ok(Said::Answer(7, Answer::Retry { .. }))));
        let after = Some(tollway_core::Span::from_millis(1_500));
        assert!(
            matches!(read(br#"{"rate_limited":7,"after":1.5}"#), Ok(Said::Answer(7, Answer::RateLimited { after: read, .. })) if read == after)
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
            r#"{"done":1,"outputs":[{"bucket":"b"}]}"#,
            r#"{"finished":1}"#,
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
    }
}
