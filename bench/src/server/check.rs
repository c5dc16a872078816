//! Checks that the measured servers decide: one that always fails or always grants would be fast.

use anyhow::{Context, Result, ensure};

/// The two limits of every server, independent of their syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Grants every request of a run. Refills so slowly that a key stays in use between two visits.
    Plenty,
    /// Grants two a day.
    Two,
}

/// The limit for servers that receive it with every request.
pub(super) struct Bucket {
    pub(super) burst: i32,
    pub(super) amount: i32,
    pub(super) period_seconds: i32,
}

impl Limit {
    /// The name for servers with limits in a config.
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

/// Takes one unit for a key. Returns whether it was granted.
type Take<'a> = Box<dyn FnMut(Limit, &str) -> Result<bool> + 'a>;

/// A client of one server.
pub(super) struct Judge<'a> {
    who: &'static str,
    take: Take<'a>,
}

impl<'a> Judge<'a> {
    /// `take` takes one unit for a key and returns whether it was granted.
    pub(super) fn new(who: &'static str, take: impl FnMut(Limit, &str) -> Result<bool> + 'a) -> Self {
        Self { who, take: Box::new(take) }
    }

    /// Before the load: the third of two is denied. Each protocol uses its own key, because they share meters.
    pub(super) fn before(&mut self, protocol: &str) -> Result<()> {
        for granted in [true, true, false] {
            self.expect(Limit::Two, &format!("checked:{protocol}"), granted)?;
        }
        Ok(())
    }

    /// After the load: its keys still have units left.
    pub(super) fn after(&mut self, key: &str) -> Result<()> {
        self.expect(Limit::Plenty, key, true)
    }

    fn expect(&mut self, limit: Limit, key: &str, granted: bool) -> Result<()> {
        let said = (self.take)(limit, key).with_context(|| format!("{} does not decide", self.who))?;
        ensure!(said == granted, "{} granted: {said}, expected: {granted}", self.who);
        Ok(())
    }
}
