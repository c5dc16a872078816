//! Access control: which token a request needs.

use std::sync::Arc;

use hyper::HeaderMap;

use super::tokens::{Right, TokenMismatch};
use crate::connection::Caller;
use crate::http::identity_header::identity_header;
use crate::http::{Access, Problem};
use crate::listener::Reach;
use crate::rules::Rules;
use crate::worker::Worker;

/// Where a proxy puts its token: `Authorization` may hold its client's.
pub(crate) const TOKEN_HEADER: &str = "x-tollway-token";

/// Why a request may not enter.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its token is wrong: the answer is delayed.
    WrongToken,
    /// Another reason.
    Because(Problem),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Because(problem)
    }
}

impl Refused {
    /// The error to answer with; after a delay if it was a guess.
    pub(crate) async fn answer_late(self, worker: &Worker) -> Problem {
        match self {
            Self::WrongToken => {
                worker.state.wrong_tokens.delay(worker.state.timeouts.wrong_token).await;
                Problem::no_token()
            }
            Self::Because(problem) => problem,
        }
    }
}

/// Checks that a request has the right it needs, and returns the name of its token.
///
/// Without a token in the config, only clients on this machine can connect: they may read but not write.
pub(crate) fn may_enter(
    access: Access,
    rules: &Rules,
    worker: &Worker,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Option<Arc<str>>, Refused> {
    let tokens = &rules.tokens;
    let linked = match access {
        Access::Read => Some(Right::Read),
        Access::Write => Some(Right::Write),
        _ => None,
    };
    if let (Some(needed), Some(link)) = (linked, worker.state.link.as_deref())
        && let Some(name) = presented_token(headers)?.and_then(|token| link.find(token, needed).ok())
    {
        return Ok(Some(name));
    }
    let needed = match access {
        Access::Open => return Ok(None),
        Access::Decide if !tokens.guard(Right::Decide) => return Ok(None),
        Access::DecideHere if !tokens.guard(Right::Decide) => {
            return if caller.reach == Reach::Network {
                Err(Problem::needs_token_here().into())
            } else {
                Ok(None)
            };
        }
        Access::Decide | Access::DecideHere => Right::Decide,
        Access::Read if tokens.administration_has_none() => return Ok(None),
        Access::Write if tokens.administration_has_none() => return Err(Problem::may_not_write().into()),
        Access::Read => Right::Read,
        Access::Write => Right::Write,
    };
    let Some(token) = presented_token(headers)? else { return Err(Problem::no_token().into()) };
    match tokens.find(token, needed) {
        Ok(name) => Ok(Some(name)),
        Err(TokenMismatch::LacksRight) if needed == Right::Write => Err(Problem::may_not_write().into()),
        Err(TokenMismatch::LacksRight) => Err(Problem::another_right().into()),
        // The link may read, and this changes something.
        Err(TokenMismatch::Unknown) if is_link(worker, token) => Err(Problem::may_not_write().into()),
        Err(TokenMismatch::Unknown) => {
            worker.state.note_wrong_token(caller.peer, caller.listener);
            Err(Refused::WrongToken)
        }
    }
}

fn is_link(worker: &Worker, token: &[u8]) -> bool {
    worker.state.link.as_deref().is_some_and(|link| link.find(token, Right::Read).is_ok())
}

/// The token of a request: `X-Tollway-Token: TOKEN` or `Authorization: Bearer TOKEN`.
pub(super) fn presented_token(headers: &HeaderMap) -> Result<Option<&[u8]>, Problem> {
    if let Some(token) = identity_header(headers, TOKEN_HEADER)? {
        return Ok(Some(token));
    }
    let bearer = identity_header(headers, "authorization")?.and_then(|value| value.split_at_checked(7));
    Ok(bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer ")).map(|(_, token)| token))
}
