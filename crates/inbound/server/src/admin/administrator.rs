//! What the sender of a request to the administration may do, for a handler that answers it.

use std::fmt;
use std::sync::Arc;

use hyper::HeaderMap;
use tollway_inbound::address::Peer;

use super::Actor;
use super::access::{Refused, presented_token};
use super::tokens::{Right, TokenMismatch};
use crate::connection::Caller;
use crate::rules::Rules;
use crate::worker::Worker;

/// What a client of the administration may do. Each right includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRight {
    /// Only what needs no token: the config has one, and the request has none.
    Nothing,
    /// Reading what names no subject. A client of this machine, if the config has no token, needs none for it.
    Overview,
    /// Reading everything.
    Read,
    /// Reading and changing.
    Write,
}

/// A client of the administration: its right, and who it is, for the log.
#[derive(Clone, Debug)]
pub struct Administrator {
    /// What it may do.
    pub right: AdminRight,
    actor: Actor,
}

impl Administrator {
    /// The right that the token of a request gives.
    pub(crate) fn of(
        rules: &Rules,
        worker: &Worker,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Self, Refused> {
        let open = rules.tokens.administration_has_none();
        let without = if open { AdminRight::Overview } else { AdminRight::Nothing };
        let Some(token) = presented_token(headers)? else { return Ok(Self::new(without, None, caller.peer)) };
        for tokens in worker.state.link.as_deref().into_iter().chain([&rules.tokens]) {
            for (right, gives) in [(Right::Write, AdminRight::Write), (Right::Read, AdminRight::Read)] {
                if let Ok(name) = tokens.find(token, right) {
                    return Ok(Self::new(gives, Some(name), caller.peer));
                }
            }
        }
        // A token for decisions is a token of the config all the same.
        if rules.tokens.find(token, Right::Read) == Err(TokenMismatch::LacksRight) {
            return Ok(Self::new(without, None, caller.peer));
        }
        worker.state.note_wrong_token(caller.peer, caller.listener);
        Err(Refused::WrongToken)
    }

    fn new(right: AdminRight, token: Option<Arc<str>>, peer: Peer) -> Self {
        Self { right, actor: Actor::new(token, peer) }
    }
}

/// The name of the token and the address, as in `alice at 10.0.0.7`.
impl fmt::Display for Administrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.actor.fmt(f)
    }
}
