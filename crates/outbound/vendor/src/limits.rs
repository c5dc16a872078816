//! Quotas written in the limit language: `200 requests / minute`, `250k tokens / minute bucket`, `4 concurrent`.

use std::fmt;

use tollway_core::{Algorithm, Calendar, Limit, LimitTextError, Span, Timestamp};

use crate::{Quota, Shape, Terms, Unit};

/// The largest amount of a vendor's quota: buckets count in millionths.
const AMOUNT_MAX: u64 = 1_000_000_000_000;

/// Why a text is no limit of a simulated vendor.
#[derive(Clone, PartialEq, Eq)]
pub enum VendorLimitError {
    /// It is not a limit.
    Text(LimitTextError),
    /// It is a limit that the simulated vendor does not have.
    Unsupported {
        /// The limit.
        limit: String,
        /// What to write instead.
        advice: &'static str,
    },
}

tollway_core::debug_as_display!(VendorLimitError);

impl fmt::Display for VendorLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Unsupported { limit, advice } => {
                write!(f, "the simulated vendor cannot count `{limit}`; {advice}")
            }
        }
    }
}

impl std::error::Error for VendorLimitError {}

impl From<LimitTextError> for VendorLimitError {
    fn from(error: LimitTextError) -> Self {
        Self::Text(error)
    }
}

/// When windows start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowStart {
    /// Windows start this long after multiples of their length since 1970. A day in a zone starts at its midnight.
    pub phase: Span,
    /// The time at which a zone's midnight is looked up. A change of clocks later on does not move it.
    pub now: Timestamp,
}

impl Terms {
    /// Adds a limit: a quota of `requests` or `tokens`, or `N concurrent`.
    pub fn add_limit(&mut self, text: &str, start: WindowStart) -> Result<(), VendorLimitError> {
        let limit: Limit = text.parse()?;
        if limit.has_slots() {
            self.concurrent = Some(limit.amount());
        } else {
            let quota = Quota { unit: unit(&limit)?, ..Quota::calls(shape(&limit, start)?) };
            self.quotas.push(quota);
        }
        Ok(())
    }

    /// From `at` on, this limit replaces the first one of its unit.
    pub fn change_limit(
        &mut self,
        at: Timestamp,
        text: &str,
        start: WindowStart,
    ) -> Result<(), VendorLimitError> {
        let limit: Limit = text.parse()?;
        let shape = shape(&limit, start)?;
        let unit = unit(&limit)?;
        let advice = "there is no limit of its unit to replace: give that one first";
        let quota = self.quotas.iter_mut().find(|quota| quota.unit == unit);
        let quota = quota.ok_or_else(|| unsupported(&limit, advice))?;
        quota.shapes.push((at, shape));
        quota.shapes.sort_by_key(|(from, _)| *from);
        Ok(())
    }

    /// Calls a second, in millionths, that the quotas allow in the long run at this time.
    pub fn calls_rate(&self, at: Timestamp) -> Option<u64> {
        let calls = self.quotas.iter().filter(|quota| quota.unit == Unit::Calls);
        calls.map(|quota| quota.shape(at).rate()).min()
    }
}

fn unit(limit: &Limit) -> Result<Unit, VendorLimitError> {
    match limit.unit().as_str() {
        "requests" => Ok(Unit::Calls),
        "tokens" => Ok(Unit::Tokens),
        _ => Err(unsupported(limit, "its units are `requests` and `tokens`")),
    }
}

fn shape(limit: &Limit, WindowStart { phase, now }: WindowStart) -> Result<Shape, VendorLimitError> {
    let amount = limit.amount();
    if limit.capacity().max(amount) > AMOUNT_MAX {
        return Err(unsupported(limit, "amounts are at most 1,000,000,000,000"));
    }
    let bucket =
        |period: Span, burst| Shape::Bucket { rate: Shape::Sliding { amount, length: period }.rate(), burst };
    match limit.algorithm() {
        Algorithm::Window(Calendar::Every(length)) => Ok(Shape::Window { amount, length: *length, phase }),
        Algorithm::Window(calendar @ (Calendar::Day(_) | Calendar::Week(_))) => {
            let midnight = calendar.window_at(now).0.since(Timestamp::EPOCH);
            let length = limit.period().unwrap_or(Span::from_days(1));
            Ok(Shape::Window { amount, length, phase: midnight.plus(phase) })
        }
        Algorithm::Window(Calendar::Month(_)) => {
            Err(unsupported(limit, "its windows all have one length: write `/ 30 days`"))
        }
        Algorithm::FromFirstCall(_) => {
            Err(unsupported(limit, "its windows follow the clock: leave out `from first call`"))
        }
        Algorithm::Sliding(length) => Ok(Shape::Sliding { amount, length: *length }),
        Algorithm::Bucket { period, burst } => Ok(bucket(*period, *burst)),
        Algorithm::Paced(period) => Ok(bucket(*period, 1)),
        Algorithm::Adaptive(_) => Err(unsupported(limit, "a vendor has a rate of its own: write `paced`")),
        Algorithm::Concurrency { .. } => {
            Err(unsupported(limit, "the number of concurrent calls cannot change"))
        }
    }
}

fn unsupported(limit: &Limit, advice: &'static str) -> VendorLimitError {
    VendorLimitError::Unsupported { limit: limit.to_string(), advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limits: &[&str]) -> Result<Terms, VendorLimitError> {
        let mut terms = Terms::new(Vec::new());
        let start = WindowStart { phase: Span::from_secs(17), now: Timestamp::from_secs(1_772_445_600) };
        for limit in limits {
            terms.add_limit(limit, start)?;
        }
        Ok(terms)
    }

    #[test]
    fn every_kind_of_limit_is_a_shape() {
        let terms = terms(&[
            "200 / minute",
            "250k tokens / minute bucket burst 500k",
            "3 / second paced",
            "100 / hour sliding",
            "25 / day in America/Los_Angeles",
            "4 concurrent",
        ]);
        let terms = terms.unwrap();
        let (minute, phase) = (Span::from_mins(1), Span::from_secs(17));
        let shapes: Vec<(Unit, Shape)> =
            terms.quotas.iter().map(|quota| (quota.unit, quota.shape(Timestamp::EPOCH))).collect();
        assert_eq!(shapes[0], (Unit::Calls, Shape::Window { amount: 200, length: minute, phase }));
        assert_eq!(shapes[1], (Unit::Tokens, Shape::Bucket { rate: 4_166_666_666, burst: 500_000 }));
        assert_eq!(shapes[2], (Unit::Calls, Shape::Bucket { rate: 3_000_000, burst: 1 }));
        let hour = Span::from_hours(1);
        assert_eq!(shapes[3], (Unit::Calls, Shape::Sliding { amount: 100, length: hour }));
        // On 2 March 2026, midnight in California was at 08:00 UTC.
        let midnight = Span::from_secs(1_772_438_400).plus(phase);
        let day = Span::from_days(1);
        assert_eq!(shapes[4], (Unit::Calls, Shape::Window { amount: 25, length: day, phase: midnight }));
        assert_eq!(terms.concurrent, Some(4));
    }

    #[test]
    fn unsupported_limits_say_what_to_write() {
        for (text, advice) in [
            ("5 points / minute", "`requests` and `tokens`"),
            ("5 / hour from first call", "leave out `from first call`"),
            ("5 / month", "write `/ 30 days`"),
            ("5000000M tokens / minute bucket", "at most 1,000,000,000,000"),
        ] {
            let error = terms(&[text]).unwrap_err().to_string();
            assert!(error.contains(advice), "{text}: {error}");
        }
        assert!(matches!(terms(&["5 per fortnight"]), Err(VendorLimitError::Text(_))));
    }

    #[test]
    fn later_limit_replaces_the_first_of_its_unit() {
        let mut terms = terms(&["250k tokens / minute", "10 / second bucket"]).unwrap();
        let later = Timestamp::from_secs(600);
        terms.change_limit(later, "4 / second bucket", WindowStart::default()).unwrap();
        assert_eq!(terms.calls_rate(Timestamp::from_secs(599)), Some(10_000_000));
        assert_eq!(terms.calls_rate(later), Some(4_000_000));
        let error = terms.change_limit(later, "4 concurrent", WindowStart::default()).unwrap_err();
        assert!(error.to_string().contains("cannot change"), "{error}");
    }
}
