//! Which algorithm a limit has, for code that treats one of them in a special way. Of a new algorithm the answers are no,
//! until one of them fits it.

use super::{Algorithm, Calendar, Limit};
use crate::Span;
use crate::algorithm::{AlgorithmRules, with_rules};

impl Algorithm {
    /// The windows it is aligned to, if it is an aligned window.
    pub(super) fn calendar(&self) -> Option<&Calendar> {
        if let Self::Window(calendar) = self { Some(calendar) } else { None }
    }

    /// The same with this burst, if it has one to change.
    pub(super) fn with_burst(&self, burst: Option<u64>) -> Self {
        match (self, burst) {
            (Self::Bucket { period, .. }, Some(burst)) => Self::Bucket { period: *period, burst },
            _ => self.clone(),
        }
    }
}

impl Limit {
    /// The windows it is aligned to, if it is an aligned window.
    pub fn calendar(&self) -> Option<&Calendar> {
        self.algorithm().calendar()
    }

    /// Whether it counts in one fixed window at a time, aligned or from the first call.
    pub fn is_window(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Window(_) | Algorithm::FromFirstCall(_))
    }

    /// Whether it is a sliding window. Its room depends on later takes, so that a take cannot be booked ahead.
    pub fn slides(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Sliding(_))
    }

    /// Whether it refills continuously: a bucket, a paced limit, which is one of burst 1, or an adaptive one.
    pub fn refills(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Bucket { .. } | Algorithm::Paced(_) | Algorithm::Adaptive(_))
    }

    /// Whether it spaces single units evenly, so that a take of more than one is refused.
    pub fn is_paced(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Paced(_))
    }

    /// The burst of a bucket. No other limit has one.
    pub fn burst(&self) -> Option<u64> {
        if let Algorithm::Bucket { burst, .. } = self.algorithm() { Some(*burst) } else { None }
    }

    /// How long a slot lives without `renew`, if it is a limit of slots.
    #[inline]
    pub fn slots_expire(&self) -> Option<Span> {
        if let Algorithm::Concurrency { expires } = self.algorithm() { Some(*expires) } else { None }
    }

    /// Whether a take holds a slot until `done` instead of spending units.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.slots_expire().is_some()
    }

    /// Whether its rate is learned.
    pub fn is_adaptive(&self) -> bool {
        matches!(self.algorithm(), Algorithm::Adaptive(_))
    }

    /// Whether every take counts one in it, whatever its cost: slots, and calls under a learned rate.
    #[inline]
    pub fn counts_calls(&self) -> bool {
        self.has_slots() || self.is_adaptive()
    }

    /// Whether a take can be booked ahead: the limit can tell when there is room.
    pub fn books_ahead(&self) -> bool {
        with_rules!(self.algorithm(), rules => rules.books_ahead())
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
