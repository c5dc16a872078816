//! What the algorithms differ in, each difference said once: a new algorithm must answer every one of these.

use super::{Algorithm, Calendar, Limit};
use crate::Span;

impl Limit {
    /// The windows it is aligned to: those of the clock or of the calendar. Other limits have none.
    pub fn calendar(&self) -> Option<&Calendar> {
        match self.algorithm() {
            Algorithm::Window(calendar) => Some(calendar),
            Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
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
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether it slides: what is left grows while a window fades, so that nobody can be booked ahead.
    pub fn slides(&self) -> bool {
        match self.algorithm() {
            Algorithm::Sliding(_) => true,
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_)
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// Whether it refills continuously: a bucket, or a paced limit, which is one of burst 1.
    pub fn refills(&self) -> bool {
        match self.algorithm() {
            Algorithm::Bucket { .. } | Algorithm::Paced(_) => true,
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
            | Algorithm::Concurrency { .. } => false,
        }
    }

    /// How much a bucket saves up. A burst can be set for no other limit.
    pub fn burst(&self) -> Option<u64> {
        match self.algorithm() {
            Algorithm::Bucket { burst, .. } => Some(*burst),
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Sliding(_)
            | Algorithm::Paced(_)
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
            | Algorithm::Paced(_) => None,
        }
    }

    /// Whether a take holds one of its slots until `done`, rather than spending units.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.slots_expire().is_some()
    }

    /// Whether a take can be booked ahead: it is known beforehand when there is room.
    pub fn books_ahead(&self) -> bool {
        match self.algorithm() {
            Algorithm::Window(_)
            | Algorithm::FromFirstCall(_)
            | Algorithm::Bucket { .. }
            | Algorithm::Paced(_) => true,
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
        | Algorithm::Concurrency { .. } => algorithm.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each algorithm answers: aligned, window, slides, refills, paced, has a burst, has slots, books ahead.
    #[test]
    fn every_algorithm_answers_for_itself() {
        for (text, wanted) in [
            ("5 / minute", "aligned window books"),
            ("5 / day in Europe/Berlin", "aligned window books"),
            ("5 / minute from first call", "window books"),
            ("5 / minute sliding", "slides"),
            ("5 / minute bucket burst 9", "refills burst books"),
            ("5 / minute paced", "refills paced books"),
            ("5 concurrent expires 90s", "slots"),
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
