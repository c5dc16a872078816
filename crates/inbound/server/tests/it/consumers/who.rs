//! How a consumer is identified.

use std::sync::Arc;

use tollway::core::Period;
use tollway_consumers::{ConsumerId, token_line};

use super::bank::{Bank, Place, Plan, only, told};

fn bank_with_tokens() -> Bank {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let line = token_line(&ConsumerId::new("c").unwrap(), "the-token-of-c");
    let file = folder.path().join("tokens");
    std::fs::write(&file, format!("# consumers\n{line}\n")).unwrap();
    let tokens = format!("[consumers.tokens]\nfile = \"{}\"", file.display());
    Plan { folder, more: &tokens, ..Plan::at(Place::memory()) }.start()
}

/// C4: a token identifies its consumer in every supported form; an unknown token is a 401, not an anonymous caller.
#[test]
fn token_identifies_its_consumer_and_unknown_is_401() {
    let mut bank = bank_with_tokens();
    bank.record("c", only(Period::Hour, 10));
    for (shown, remaining) in [("Bearer the-token-of-c", 9), (r#"DirectLogin token="the-token-of-c""#, 8)] {
        let answer = bank.call_with(&format!("authorization: {shown}\r\n"));
        assert_eq!(told(&answer).unwrap()[0..2], [10, remaining], "{shown}");
    }
    for shown in ["Bearer the-token-of-d", "Bearer"] {
        let refused = bank.call_with(&format!("authorization: {shown}\r\n"));
        assert_eq!(refused.status, 401, "{shown:?}: {refused:?}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        assert!(!refused.body.contains("token-of-d"), "{refused:?}");
    }
    assert_eq!(told(&bank.call_with("")).unwrap()[0..2], [1_000, 999], "no credentials at all");
    let empty = bank.call_with("authorization: \r\nx-consumer-id: \r\n");
    assert_eq!(told(&empty).unwrap()[0..2], [1_000, 998], "empty headers are absent");
    let twice = "authorization: Bearer the-token-of-c\r\nauthorization: Bearer the-token-of-d\r\n";
    for headers in [twice, "x-consumer-id: c\r\nx-consumer-id: \r\n"] {
        assert_eq!(bank.call_with(headers).status, 400, "{headers}");
    }
    assert_eq!(told(&bank.call("c")).unwrap()[1], 7, "by the header");
}

/// C2: an id that cannot be a Redis key is rejected before anything is counted.
#[test]
fn invalid_consumer_id_is_rejected() {
    for place in [Place::memory(), Place::redis()] {
        let mut bank = Bank::at(place, "per_hour = 5", "");
        for id in ["c_PER_MINUTE", "a b", &"x".repeat(256)] {
            let refused = bank.call(id);
            assert_eq!(refused.status, 400, "{id}: {refused:?}");
            assert!(refused.body.contains("x-consumer-id"), "{refused:?}");
        }
        if let Place::Redis(redis) = &bank.place {
            assert_eq!(redis.command(&["KEYS", "*_PER_*"]), "");
        }
    }
}
