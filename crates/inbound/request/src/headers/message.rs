//! The message of a 429, in the wording that clients of such APIs expect.

use tollway_core::{Limit, Period, Span};

/// How a limit knows its caller. The message of a 429 says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerKind {
    /// As a subject of a policy, whatever it stands for. The message names the limit only.
    Subject,
    /// As a consumer, whose records make its limits.
    Consumer,
    /// By its address: it shows no credentials.
    Anonymous,
}

/// The message of a 429: it names the limit, and whom it is for if that is a consumer or anonymous access.
///
/// ```
/// use tollway_inbound::headers::{CallerKind, too_many_requests};
///
/// let limit = "1000 requests / hour from first call".parse()?;
/// assert_eq!(
///     too_many_requests(&limit, CallerKind::Anonymous),
///     "Too Many Requests. We only allow 1000 requests per hour for anonymous access."
/// );
/// # Ok::<(), tollway_core::LimitTextError>(())
/// ```
pub fn too_many_requests(limit: &Limit, caller: CallerKind) -> String {
    let whose = match caller {
        CallerKind::Subject => "",
        CallerKind::Consumer => " for this Consumer",
        CallerKind::Anonymous => " for anonymous access",
    };
    let (amount, unit) = (limit.amount(), limit.unit());
    match limit.period() {
        // Only slots have no period.
        None => {
            format!("Too Many Requests. We only allow {amount} requests at the same time{whose}.")
        }
        Some(period) => {
            format!("Too Many Requests. We only allow {amount} {unit} {}{whose}.", per(period))
        }
    }
}

fn per(span: Span) -> String {
    match Period::of(span) {
        Some(period) => format!("per {period}"),
        None => format!("in {span}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C5: the documented message, for every period.
    #[test]
    fn every_period_has_its_message() {
        for (limit, words) in [
            ("10 / second", "10 requests per second"),
            ("10 / minute", "10 requests per minute"),
            ("10 / hour", "10 requests per hour"),
            ("10 / day", "10 requests per day"),
            ("10 / week", "10 requests per week"),
            ("10 / month", "10 requests per month"),
            ("10 / month from first call", "10 requests per month"),
            ("250k tokens / minute bucket", "250000 tokens per minute"),
            ("5 concurrent", "5 requests at the same time"),
            ("10 / 90s", "10 requests in 90s"),
        ] {
            let limit: Limit = limit.parse().unwrap();
            for (caller, whose) in [
                (CallerKind::Anonymous, " for anonymous access"),
                (CallerKind::Consumer, " for this Consumer"),
                (CallerKind::Subject, ""),
            ] {
                let expected = format!("Too Many Requests. We only allow {words}{whose}.");
                assert_eq!(too_many_requests(&limit, caller), expected);
            }
        }
    }
}
