//! How a vendor's headers show its quotas: the limit, what is left, and a reset in whole seconds.

use tollway_core::controller::VendorQuota;
use tollway_core::{Span, Timestamp};

use crate::Shape;
use crate::quota::Meter;
use crate::vendor::whole_seconds;

/// Servers of a vendor whose servers count for themselves.
const NODES: u64 = 3;

/// How headers show a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderStyle {
    /// What the reset is.
    pub reset: HeaderReset,
    /// How the headers are wrong, if they are.
    pub misleads: Option<Misleading>,
}

/// What the reset in a header is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderReset {
    /// The end of a window; buckets and sliding windows show none, as Shopify does.
    #[default]
    WindowEnd,
    /// None, as HubSpot shows the quota of a day.
    Level,
    /// The time until one more call fits.
    NextCall,
    /// The time until the whole quota is free.
    Full,
}

/// How headers may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misleading {
    /// A gateway shows a quota of its own that nothing is taken from.
    Untouched,
    /// Each of several servers shows what it has counted itself.
    Servers,
    /// The reset is in milliseconds, and is read as seconds.
    Milliseconds,
    /// The headers show half of what the vendor accepts.
    Half,
}

impl HeaderStyle {
    /// How many servers answer.
    pub(crate) fn nodes(self) -> u64 {
        if self.misleads == Some(Misleading::Servers) { NODES } else { 1 }
    }

    /// What a header shows of this quota now; `node` is the server that answers.
    pub(crate) fn header_quota(self, meter: &mut Meter, now: Timestamp, node: u64) -> VendorQuota {
        let (limit, left) = (meter.shape(now).limit(), meter.left(now));
        let is_window = matches!(meter.shape(now), Shape::Window { .. });
        let reset = match self.reset {
            HeaderReset::WindowEnd => is_window.then(|| meter.wait(now, 1)),
            HeaderReset::Level => None,
            // A limit that is not touched is free at once.
            HeaderReset::NextCall => Some(meter.wait(now, left.saturating_add(1).min(limit))),
            HeaderReset::Full => Some(meter.full_in(now)),
        };
        let (remaining, reset) = match self.misleads {
            None => (left, reset),
            Some(Misleading::Untouched) => (limit, reset),
            // Servers see about as many calls each, and none of those of the others.
            Some(Misleading::Servers) => (limit - ((limit - left) / NODES + node).min(limit), reset),
            Some(Misleading::Milliseconds) => {
                (left, reset.map(|reset| Span::from_micros(reset.as_micros().saturating_mul(1_000))))
            }
            Some(Misleading::Half) => (left.saturating_sub(limit / 2), reset),
        };
        let limit = if self.misleads == Some(Misleading::Half) { limit.div_ceil(2) } else { limit };
        let reset = reset.map(whole_seconds);
        VendorQuota { limit: Some(limit), remaining, reset, age: Span::ZERO, grant: 0 }
    }
}
