//! The body of a response of success.

use serde::de::IgnoredAny;

use super::first;
use crate::bounds::DETAIL_BYTES_MAX;
use crate::handler::Answer;
use crate::handler::answer::AnswerFields;

/// The keys of an answer.
const KEYS: [&str; 3] = ["outputs", "result", "cost"];

/// Text is a result. What was meant as an answer and is none would lose outputs, on every try.
pub(super) fn answer(body: &[u8], is_json: bool) -> Answer {
    let text = body.trim_ascii();
    let parsed = serde_json::from_slice::<IgnoredAny>(text);
    let read = match (text.first(), parsed) {
        (None, _) => Ok(Answer::done()),
        (Some(b'{'), _) => AnswerFields::read(text, &KEYS).and_then(AnswerFields::done),
        (Some(b'['), Ok(_)) => Err(format!("it is a list, not an object with {}", KEYS.join(", "))),
        (Some(_), Err(error)) if is_json => Err(format!("it is no JSON: {error}")),
        (Some(_), Ok(_)) if text.len() <= DETAIL_BYTES_MAX => Ok(done(first(text))),
        (Some(_), _) => Ok(done(serde_json::Value::from(first(text)).to_string())),
    };
    read.unwrap_or_else(|why| Answer::Dead {
        error: format!("the response is not an answer: {why}"),
        detail: first(body),
    })
}

/// Done, with this JSON as the result.
fn done(result: String) -> Answer {
    Answer::Done { outputs: Vec::new(), result: Some(result), cost: std::collections::BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Handed;

    fn result(body: &[u8]) -> Option<String> {
        match answer(body, false) {
            Answer::Done { outputs, result, .. } if outputs.is_empty() => result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_is_a_result() {
        assert_eq!(result(b" \r\n"), None);
        assert_eq!(result(b"{}"), None);
        assert_eq!(result(b"OK\n").unwrap(), "\"OK\"");
        assert_eq!(result(b"[ok]").unwrap(), "\"[ok]\"");
        assert_eq!(result(b" 42 ").unwrap(), "42");
        assert_eq!(result(b"\"stored\"").unwrap(), "\"stored\"");
        assert_eq!(result(b"\xff\"").unwrap(), "\"\u{fffd}\\\"\"");
        assert_eq!(result(&b"x".repeat(10_000)).unwrap().len(), DETAIL_BYTES_MAX + 2);
        assert_eq!(result(&[b"1".repeat(10_000)].concat()).unwrap().len(), DETAIL_BYTES_MAX + 2);
    }

    #[test]
    fn answer_has_outputs_result_and_cost() {
        let body = br#"{"outputs": [{"data": {"b":  1}}], "result": [1], "cost": {"tokens": 3}}"#;
        let Answer::Done { outputs, result, cost } = answer(body, true) else { panic!() };
        assert_eq!(outputs, [Handed::new(r#"{"b":  1}"#)]);
        assert_eq!((result.as_deref(), cost["tokens"]), (Some("[1]"), 3));
    }

    #[test]
    fn broken_answer_is_dead_at_once_with_the_reason() {
        for (body, is_json, why) in [
            (&br#"{"outputs": [}"#[..], false, "column"),
            (br#"{"output": []}"#, true, "the key \"output\" is unknown; it may have outputs, result, cost"),
            (br#"{"outputs": [{"bucket": "b"}]}"#, false, "unknown field `bucket`"),
            (br#"[{"data": 1}]"#, false, "it is a list"),
            (b"OK", true, "it is no JSON"),
        ] {
            let Answer::Dead { error, detail } = answer(body, is_json) else { panic!("{why}") };
            assert!(error.starts_with("the response is not an answer: ") && error.contains(why), "{error}");
            assert_eq!(detail.as_bytes(), body);
        }
    }
}
