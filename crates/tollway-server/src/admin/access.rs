//! Access control: which token a request needs.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use super::tokens::Right;
use crate::http::{Access, Problem};
use crate::worker::Worker;

/// Checks that a request has the right it needs.
///
/// Without a token in the config, only clients on this machine can connect: they may read but not write.
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

/// The token of a request: `Authorization: Bearer TOKEN`.
fn shown(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
