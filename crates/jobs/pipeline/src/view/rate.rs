//! So many jobs in a period, evenly.

use tollway::Limit;
use tollway_core::Span;

/// So many jobs in a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRate {
    jobs: u64,
    period: Span,
}

impl JobRate {
    /// Reads `100 / minute`, or `5000 jobs / day`.
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || "not a rate; write it like \"100 / minute\" or \"5000 / day\"".to_owned();
        let limit: Limit = text.parse().map_err(|_| wrong())?;
        Ok(Self { jobs: limit.amount(), period: limit.period().ok_or_else(wrong)? })
    }

    /// How many jobs may be done this long after the beginning: one at once, the others evenly.
    pub fn allows(&self, since: Span) -> u64 {
        let jobs =
            u128::from(since.as_micros()) * u128::from(self.jobs) / u128::from(self.period.as_micros());
        u64::try_from(jobs).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// How many jobs a second, rounded down.
    pub fn per_second(&self) -> u64 {
        let jobs = u128::from(self.jobs) * u128::from(Span::from_secs(1).as_micros());
        u64::try_from(jobs / u128::from(self.period.as_micros())).unwrap_or(u64::MAX)
    }

    /// How long after the beginning one more than these may be done.
    pub fn next_after(&self, jobs: u64) -> Span {
        let micros = u128::from(jobs) * u128::from(self.period.as_micros());
        Span::from_micros(u64::try_from(micros.div_ceil(u128::from(self.jobs))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_a_second_are_rounded_down() {
        for (rate, per_second) in [("119 / minute", 1), ("59 / minute", 0), ("500 / second", 500)] {
            assert_eq!(JobRate::read(rate).unwrap().per_second(), per_second, "{rate}");
        }
    }

    #[test]
    fn jobs_are_spread_evenly() {
        let rate = JobRate::read("100 / minute").unwrap();
        assert_eq!(rate, JobRate::read("100 jobs / minute").unwrap());
        assert_eq!([0, 599, 600, 60_000].map(|ms| rate.allows(Span::from_millis(ms))), [1, 1, 2, 101]);
        for jobs in [1, 2, 57, 100, 12_345] {
            assert_eq!(rate.allows(rate.next_after(jobs)), jobs + 1);
        }
        assert_eq!(JobRate::read("3 / day").unwrap().next_after(3), Span::from_days(1));
        for wrong in ["100", "5 concurrent", "0 / minute", "fast"] {
            assert!(JobRate::read(wrong).is_err(), "{wrong}");
        }
    }
}
