//! Consumers: records, dates and credentials.

use std::fs;

use tollway_consumers::{
    ConsumerId, ConsumerTokens, Draft, Hour, Who, WhoCalls, count_tokens, read_date, token_line, write_date,
};
use tollway_server::fuzz::{neutral_record, record};

use crate::{fuzz, is_harmless, text};

/// C8: a parsed record ends after it begins, and its dates survive a round trip.
#[test]
fn records() {
    fuzz("records", |input| parsed(record(input)));
}

/// C8: the same for the neutral shape.
#[test]
fn neutral_records() {
    fuzz("neutral_records", |input| parsed(neutral_record(input)));
}

fn parsed(read: Result<Draft, String>) -> String {
    match read {
        Err(message) => {
            is_harmless(&message);
            tollway_fuzz::kind_of(&message)
        }
        Ok(draft) => {
            assert!(draft.validity.from() <= draft.validity.to());
            for date in [draft.validity.from(), draft.validity.to()] {
                assert_eq!(read_date(&write_date(date)), Ok(date));
            }
            format!("{:?}", draft.scope.api_name().is_some())
        }
    }
}

/// C3: a parsed date or hour survives a round trip.
#[test]
fn dates() {
    fuzz("dates", |input| {
        let input = text(input);
        let hour: Result<Hour, _> = input.parse();
        if let Ok(hour) = &hour {
            assert_eq!(hour.to_string().parse().as_ref(), Ok(hour));
        }
        match read_date(&input) {
            Ok(date) => {
                assert_eq!(read_date(&write_date(date)), Ok(date), "{input}");
                "a date".to_owned()
            }
            Err(error) => {
                is_harmless(&error.to_string());
                format!("{} {}", hour.is_ok(), tollway_fuzz::kind_of(&error.to_string()))
            }
        }
    });
}

const TOKEN: &str = "b3f1";

fn who(folder: &tempfile::TempDir) -> Who {
    let file = folder.path().join("tokens");
    fs::write(&file, token_line(&ConsumerId::new("c").unwrap(), TOKEN)).unwrap();
    let tokens = Some(ConsumerTokens { header: "authorization".to_owned(), file });
    Who::new(&WhoCalls { header: Some("x-consumer-id".to_owned()), tokens }).unwrap()
}

/// C5: a caller without a valid token is never identified as a consumer.
#[test]
fn callers() {
    let folder = tempfile::tempdir().unwrap();
    let who = who(&folder);
    fuzz("callers", |input| {
        let by_token = who.calls(|header| (header == "authorization").then_some(input));
        // An empty header is as none: the caller is anonymous.
        if !input.is_empty() && by_token.is_ok() {
            assert!(input.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()), "{:?}", text(input));
        }
        match who.calls(|header| (header == "x-consumer-id").then_some(input)) {
            Err(error) => {
                is_harmless(&error.to_string());
                format!("{} {}", by_token.is_ok(), tollway_fuzz::kind_of(&error.to_string()))
            }
            Ok(None) => {
                assert!(input.is_empty(), "{:?}", text(input));
                "anonymous".to_owned()
            }
            Ok(Some(consumer)) => {
                assert_eq!(consumer.as_str().as_bytes(), input);
                format!("{} a consumer", by_token.is_ok())
            }
        }
    });
}

/// T20: an error in a token file names its line.
#[test]
fn token_files() {
    fuzz("token_files", |input| match count_tokens(&text(input)) {
        Ok(count) => format!("{} tokens", count.min(3)),
        Err(problem) => {
            is_harmless(&problem);
            tollway_fuzz::kind_of(&problem)
        }
    });
}
