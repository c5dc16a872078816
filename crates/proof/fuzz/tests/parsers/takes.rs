//! JSON bodies: takes, and operations on permits.

use tollway_server::OBSERVED_HEADERS_MAX;
use tollway_server::fuzz::{observed_headers, permit_questions, takes};

use crate::fuzz;

/// T19: a parsed body survives a round trip.
#[test]
fn bodies() {
    fuzz("bodies", |input| {
        let [alone, settled] = permit_questions(input);
        assert!(alone.is_none() || settled.is_none(), "one of them has a cost");
        if let Some(permit) = &alone {
            let written = serde_json::json!({ "permit": permit }).to_string();
            assert_eq!(permit_questions(written.as_bytes())[0].as_ref(), Some(permit));
        }
        match takes(input) {
            Err(message) => {
                format!("{} {} {}", alone.is_some(), settled.is_some(), tollway_fuzz::kind_of(&message))
            }
            Ok(understood) => {
                assert_eq!(takes(understood.to_string().as_bytes()).as_ref(), Ok(&understood));
                let takes = understood.as_array().unwrap();
                let parties = takes.iter().map(|take| take["all"].as_array().unwrap().len()).max();
                format!("{} takes of {:?}", takes.len().min(4), parties.map(|parties| parties.min(4)))
            }
        }
    });
}

/// T19: the answers that programs report are bounded, and keep no secret.
#[test]
fn observed() {
    fuzz("observed", |input| {
        let Some(kept) = observed_headers(input) else { return "no report".to_owned() };
        assert!(kept.len() <= OBSERVED_HEADERS_MAX);
        let is_secret = |name: &String| {
            ["authorization", "proxy-authorization", "cookie", "set-cookie"].contains(&name.as_str())
        };
        assert!(!kept.iter().any(is_secret));
        format!("{} headers", kept.len().min(4))
    });
}
