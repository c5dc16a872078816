//! Whether those who are measured decide at all: a server that answers with errors, or always yes, is quick.

use anyhow::{Context, Result, ensure};

/// The two limits that every server has, in terms that each can be told in its own words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Grants whatever a run asks. It refills so slowly that a key stays in use between two visits.
    Plenty,
    /// Grants two a day.
    Two,
}

/// As those are told who hear the limit with every request.
pub(super) struct Bucket {
    pub(super) burst: i32,
    pub(super) amount: i32,
    pub(super) period_seconds: i32,
}

impl Limit {
    /// As those know it who have it in their config.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plenty => "plenty",
            Self::Two => "two",
        }
    }

    pub(super) fn bucket(self) -> Bucket {
        match self {
            Self::Plenty => Bucket { burst: 1_000_000_000, amount: 10_000, period_seconds: 3_600 },
            Self::Two => Bucket { burst: 2, amount: 2, period_seconds: 86_400 },
        }
    }
}

/// Takes one unit for a key, and says whether it was granted.
type Take<'a> = Box<dyn FnMut(Limit, &str) -> Result<bool> + 'a>;

/// A client of one server.
pub(super) struct Judge<'a> {
    who: &'static str,
    take: Take<'a>,
}

impl<'a> Judge<'a> {
    /// `take` takes one unit for a key and says whether it was granted.
    pub(super) fn new(who: &'static str, take: impl FnMut(Limit, &str) -> Result<bool> + 'a) -> Self {
        Self { who, take: Box::new(take) }
    }

    /// Before the load: the third of two is denied. Protocols of one server share its meters, so each has a key of its own.
    pub(super) fn before(&mut self, protocol: &str) -> Result<()> {
        for granted in [true, true, false] {
            self.expect(Limit::Two, &format!("checked:{protocol}"), granted)?;
        }
        Ok(())
    }

    /// After the load: a key that it asked for has still plenty.
    pub(super) fn after(&mut self, key: &str) -> Result<()> {
        self.expect(Limit::Plenty, key, true)
    }

    fn expect(&mut self, limit: Limit, key: &str, granted: bool) -> Result<()> {
        let said = (self.take)(limit, key).with_context(|| format!("{} does not decide", self.who))?;
        ensure!(said == granted, "{} granted: {said}, and right is {granted}", self.who);
        Ok(())
    }
}
