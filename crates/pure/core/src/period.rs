//! The six periods of a consumer's limits.

use std::fmt;

use crate::Span;

/// A period of a consumer's limit. It starts with the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3,600 seconds.
    Hour,
    /// 24 hours.
    Day,
    /// Seven days.
    Week,
    /// 30 days.
    Month,
}

impl Period {
    /// All of them, the shortest first.
    pub const ALL: [Self; 6] = [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The period that is this long.
    pub fn of(span: Span) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.span() == span)
    }

    /// How long it is.
    pub const fn span(self) -> Span {
        match self {
            Self::Second => Span::from_secs(1),
            Self::Minute => Span::from_mins(1),
            Self::Hour => Span::from_hours(1),
            Self::Day => Span::from_days(1),
            Self::Week => Span::from_days(7),
            Self::Month => Span::from_days(30),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Algorithm, Limit};

    #[test]
    fn periods_are_those_of_limits_from_first_call() {
        for period in Period::ALL {
            let limit: Limit = format!("5 requests / {period} from first call").parse().unwrap();
            let Algorithm::FromFirstCall(span) = limit.algorithm() else { panic!("{limit}") };
            assert_eq!(Period::of(*span), Some(period));
        }
        assert_eq!(Period::of(Span::from_mins(2)), None);
    }
}
