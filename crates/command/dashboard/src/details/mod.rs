//! The views behind the first screen, asked for one by one.

pub(crate) mod apis;
pub(crate) mod incidents;
pub(crate) mod policies;
pub(crate) mod policy;
pub(crate) mod subjects;

use crate::answer::Problem;

/// What is not there.
fn unknown(what: &str, name: &str) -> Problem {
    let name: String = name.chars().take(80).collect();
    Problem::not_found(format!("there is no {what} {name:?}"))
}
