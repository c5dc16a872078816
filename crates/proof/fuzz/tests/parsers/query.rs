//! Queries.

use tollway_server::fuzz::query;

use crate::{fuzz, is_harmless, text};

const KNOWN: [&str; 3] = ["policy", "subject", "deny"];

/// T19: values survive a round trip with every character percent-encoded.
#[test]
fn queries() {
    fuzz("queries", |input| match query(&text(input), &KNOWN) {
        Err(message) => {
            is_harmless(&message);
            tollway_fuzz::kind_of(&message)
        }
        Ok(values) => {
            assert_eq!(query(&written(&values), &KNOWN).as_ref(), Ok(&values));
            format!(
                "{:?}",
                values.iter().map(|value| value.as_ref().map(String::is_empty)).collect::<Vec<_>>()
            )
        }
    });
}

fn written(values: &[Option<String>]) -> String {
    let escaped = |value: &str| value.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pairs = KNOWN.iter().zip(values);
    let pairs = pairs.filter_map(|(name, value)| Some(format!("{name}={}", escaped(value.as_deref()?))));
    pairs.collect::<Vec<_>>().join("&")
}
