//! `tollway dashboard`, and the dashboards of `serve`, `pipeline run` and `demo`.
//!
//! `link` is the address that a program prints, `alone` is the command.

mod alone;
mod link;

use clap::ValueEnum;
use tollway_server::{ServerConfig, TokenRight};

pub(crate) use alone::{Arguments, run};
pub(crate) use link::{Link, page_url, usual_addresses};

/// What the dashboard's link may do, or that there is no dashboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The link may read
    #[default]
    Read,
    /// The link may also change limits, and pause and redrive jobs
    Write,
    /// No dashboard
    Off,
}

impl Mode {
    /// What its link may do.
    pub(crate) fn right(self) -> TokenRight {
        if self == Self::Write { TokenRight::Write } else { TokenRight::Read }
    }
}

/// Whether there is a token that may change something.
pub(crate) fn can_write(config: &ServerConfig, link: Option<&Link>) -> bool {
    let named = || config.named_tokens.iter().any(|named| named.right == TokenRight::Write);
    link.is_some_and(Link::may_write) || config.write_token.is_some() || named()
}
