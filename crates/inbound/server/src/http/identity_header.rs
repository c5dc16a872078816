//! Headers that say who calls: at most once, so that a proxy and this server cannot read different ones.

use hyper::header::HeaderMap;

use super::problem::Problem;

/// The value of a header; an empty one counts as absent.
pub(crate) fn identity_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h [u8]>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::bad_request(format!("the header {name} occurs twice")));
    }
    Ok(first.map(|value| value.as_bytes()).filter(|value| !value.is_empty()))
}
