//! Answers that send a call to another node.

use redis::{RedisResult, Value};

use crate::cluster::slot_ranges::{Host, read_redirect};
use crate::link::{error_code, error_detail};
use crate::node::Node;

/// Where an answer sends its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot is there now.
    Moved(u16, Host),
    /// The slot is on its way there: this call is sent there once, after `ASKING`.
    Ask(Host),
}

impl Redirect {
    /// The redirect in an answer of this node, if it is one.
    pub(crate) fn of(answer: &RedisResult<Value>, node: &Node) -> Option<Self> {
        let code = error_code(answer).filter(|code| matches!(*code, "MOVED" | "ASK"))?;
        let detail = error_detail(answer)?;
        let asked = node.name().rsplit_once(':').map_or("", |(host, _)| host);
        let (slot, host) = read_redirect(detail, asked)?;
        Some(if code == "MOVED" { Self::Moved(slot, host) } else { Self::Ask(host) })
    }
}
