//! Why nobody at AWS answered, in words: the SDK's own text for people ends with a dump for programmers.

use std::error::Error;
use std::iter::successors;

/// An error and all that led to it, the first cause last.
pub(crate) fn with_causes<'a>(error: &'a (dyn Error + 'static)) -> String {
    let causes = successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
