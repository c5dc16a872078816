//! The properties in which algorithms differ. A new algorithm must define each of them.

use super::{Algorithm, Calendar, Limit};
use crate::Span;

impl Limit {
    /// The windows it is aligned to, if it is an aligned window.
    pub fn calendar(&self) -> Option<&Calendar> {
        match self.algorithm() {
            Algorithm::Window(calendar) => Some(calendar),
            Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => None,
        }
    }

    /// Whether it counts in one fixed window at a time, aligned or from the first call.
    pub fn is_window(&self) -> bool {
        match self.algorithm() {
            Algorithm::Window(_) | Algorithm::FromFirstCall(_) => true,
            Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether it is a sliding window. Its room depends on later takes, so that a take cannot be booked ahead.
    pub fn slides(&self) -> bool {
        match self.algorithm() {
            Algorithm::Sliding(_) => true,
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether it refills continuously: a bucket, a paced limit, which is one of burst 1, or an adaptive one.
    pub fn refills(&self) -> bool {
        match self.algorithm() {
            Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Adaptive(_) => true,
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether it spaces single units evenly, so that a take of more than one is refused.
    pub fn is_paced(&self) -> bool {
        match self.algorithm() {
            Algorithm::Paced(_) => true,
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// The burst of a bucket. No other limit has one.
    pub fn burst(&self) -> Option<u64> {
        match self.algorithm() {
            Algorithm::Bucket { burst, .. } => Some(*burst),
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_)
            | Algorithm::Concurrency { .. } => None,
        }
    }

    /// How long a slot lives without `renew`, if it is a limit of slots.
    #[inline]
    pub fn slots_expire(&self) -> Option<Span> {
        match self.algorithm() {
            Algorithm::Concurrency { expires } => Some(*expires),
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => None,
        }
    }

    /// Whether a take holds a slot until `done` instead of spending units.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.slots_expire().is_some()
    }

    /// Whether its rate is learned.
    pub fn is_adaptive(&self) -> bool {
        match self.algorithm() {
            Algorithm::Adaptive(_) => true,
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether every take counts one in it, whatever its cost: slots, and calls under a learned rate.
    #[inline]
    pub fn counts_calls(&self) -> bool {
        self.has_slots() || self.is_adaptive()
    }

    /// Whether a take can be booked ahead: the limit can tell when there is room.
    pub fn books_ahead(&self) -> bool {
        match self.algorithm() {
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Adaptive(_) => true,
            Algorithm::Sliding(_) | Algorithm::Concurrency { .. } => false,
        }
    }
}

/// The same algorithm with this burst, if it has one to change.
pub(super) fn with_burst(algorithm: &Algorithm, burst: Option<u64>) -> Algorithm {
    match algorithm {
        Algorithm::Bucket { period, burst: own } => {
            Algorithm::Bucket { period: *period, burst: burst.unwrap_or(*own) }
        }
        Algorithm::Window(_)
        | Algorithm::FromFirstCall(_)
        | Algorithm::Sliding(_)
        | Algorithm::Paced(_)
        | Algorithm::Adaptive(_)
        | Algorithm::Concurrency { .. } => algorithm.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties of each algorithm: aligned, window, slides, refills, paced, has a burst, has slots, counts calls, adaptive, books ahead.
    #[test]
    fn properties_of_each_algorithm() {
        for (text, wanted) in [
            ("5 / minute", "aligned window books"),
            ("5 / day in Europe/Berlin", "aligned window books"),
            ("5 / minute from first call", "window books"),
            ("5 / minute sliding", "slides"),
            ("5 / minute bucket burst 9", "refills burst books"),
            ("5 / minute paced", "refills paced books"),
            ("5 / minute adaptive", "refills calls adaptive books"),
            ("5 concurrent expires 90s", "slots calls"),
        ] {
            let limit: Limit = text.parse().unwrap();
            let answers = [
                ("aligned", limit.calendar().is_some()),
                ("window", limit.is_window()),
                ("slides", limit.slides()),
                ("refills", limit.refills()),
                ("paced", limit.is_paced()),
                ("burst", limit.burst() == Some(9)),
                ("slots", limit.has_slots() && limit.slots_expire() == Some(Span::from_secs(90))),
                ("calls", limit.counts_calls()),
                ("adaptive", limit.is_adaptive()),
                ("books", limit.books_ahead()),
            ];
            let yes: Vec<&str> = answers.iter().filter(|(_, yes)| *yes).map(|(word, _)| *word).collect();
            assert_eq!(yes.join(" "), wanted, "{text}");
        }
    }

    #[test]
    fn only_a_bucket_takes_a_burst() {
        for (text, after) in [
            ("5 / minute bucket burst 9", "7 requests / minute bucket burst 20"),
            ("5 / minute paced", "7 requests / minute paced"),
            ("5 / minute", "7 requests / minute"),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.with_amounts(7, Some(20)).unwrap().to_string(), after);
        }
    }
}
