//! Envoy's rate limit requests.

use tollway_core::Subject;
use tollway_server::fuzz::envoy_question;

use crate::{fuzz, is_harmless};

/// The most descriptors of a request, as documented in docs/guide/envoy.md.
const DESCRIPTORS_MAX: usize = 64;

/// T19, T18: a request survives a round trip; every descriptor maps to a subject, whatever its values.
#[test]
fn envoy_questions() {
    fuzz("envoy_questions", |input| match envoy_question(input) {
        Err(message) => {
            is_harmless(&message);
            tollway_fuzz::kind_of(&message)
        }
        Ok((written, subjects)) => {
            assert!((1..=DESCRIPTORS_MAX).contains(&subjects.len()));
            subjects.iter().for_each(|subject| drop(Subject::new(subject).unwrap()));
            let count = subjects.len();
            assert_eq!(envoy_question(&written), Ok((written, subjects)));
            format!("{} descriptors", count.min(8))
        }
    });
}
