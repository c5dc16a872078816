//! Who may do what.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use super::tokens::Right;
use crate::http::{Access, Problem};
use crate::worker::Worker;

/// Whether a request may have what it asks for.
///
/// Without any token in the config, clients of this machine may read, which are the only ones that can connect, and none may
/// write.
pub(crate) fn may_enter(access: Access, worker: &Worker, headers: &HeaderMap) -> Result<(), Problem> {
    let needed = match access {
        Access::Open => return Ok(()),
        Access::Read => Right::Read,
        Access::Write => Right::Write,
    };
    let rules = worker.state.rules();
    if rules.tokens.are_none() {
        return if needed == Right::Read { Ok(()) } else { Err(Problem::may_not_write()) };
    }
    match shown(headers).and_then(|token| rules.tokens.right_of(token)) {
        None => Err(Problem::no_token()),
        Some(right) if right < needed => Err(Problem::may_not_write()),
        Some(_) => Ok(()),
    }
}

/// The token that a request shows: `Authorization: Bearer TOKEN`.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
