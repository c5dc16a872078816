//! `CL.THROTTLE key max_burst count period [quantity]`, answered as the module redis-cell answers it.
//!
//! The reply is five numbers: whether it was limited, the size of the bucket, what is left of it, the seconds until a retry
//! makes sense, and the seconds until the bucket is full. Errors have the wording of redis-cell where it has one.

use std::pin::Pin;
use std::sync::Arc;

use tollway::core::{FastDecision, NewAccounts, Reading};
use tollway::{Span, TakeError, Taken};

use super::chosen::{COUNT_MAX, Choice, Chosen, PERIOD_SECONDS_MAX};
use super::outbox::Outbox;
use super::reply::Reply;
use super::request;
use super::session::Session;
use crate::worker::Worker;

/// A reply that waits for the store.
pub(super) type Later = Pin<Box<dyn Future<Output = Result<Throttled, TakeError>>>>;

/// When a take is worth another try that was denied because too many were in flight.
const RETRY_AFTER: Span = Span::from_secs(1);

/// The parsed arguments.
struct Wanted<'a> {
    key: &'a str,
    choice: Choice,
    quantity: u64,
}

/// The reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttled {
    limited: bool,
    size: u64,
    remaining: u64,
    /// `None` if the take was granted, or can never be.
    retry_after: Option<Span>,
    reset_after: Span,
}

/// Answers the command; at once if the store is in this process.
pub(super) fn answer(worker: &Worker, session: &Session, arguments: &[&[u8]], outbox: &mut Outbox) {
    let asked = Wanted::read(arguments).and_then(|wanted| {
        let chosen = worker.resp.chosen.find(&worker.state.limiter, wanted.choice);
        Ok((chosen.map_err(|problem| format!("ERR {problem}"))?, wanted))
    });
    let (chosen, Wanted { key, quantity, .. }) = match asked {
        Ok(asked) => asked,
        Err(problem) => return outbox.written.error(problem),
    };
    if let Some(throttled) = chosen.ask_now(key, quantity) {
        return throttled.write(&mut outbox.written);
    }
    match chosen.ask(key, quantity).now() {
        Ok(taken) => Throttled::of(&chosen, quantity, &taken).write(&mut outbox.written),
        // The store is not in this process; nothing was sent yet.
        Err(TakeError::BlockingInAsync) => {
            let Some(in_flight) = session.admit(worker) else {
                return Throttled::for_now(&chosen).write(&mut outbox.written);
            };
            let key = key.to_owned();
            let (state, network) = (Arc::clone(&worker.state), session.network(worker));
            outbox.later(Box::pin(async move {
                let _in_flight = in_flight;
                let new = network.map_or(NewAccounts::Make, |network| state.new_subjects.allowed_to(network));
                let taken = chosen.ask(&key, quantity).new_accounts(new).await?;
                if let (Some(network), Some(decision)) = (network, taken.decision()) {
                    state.new_subjects.made(network, decision.accounts_made);
                }
                Ok(Throttled::of(&chosen, quantity, &taken))
            }));
        }
        Err(error) => write_error(&error, &mut outbox.written),
    }
}

/// Writes a reply that waited for the store.
pub(super) fn write(answer: &Result<Throttled, TakeError>, out: &mut Vec<u8>) {
    match answer {
        Ok(throttled) => throttled.write(out),
        Err(error) => write_error(error, out),
    }
}

fn write_error(error: &TakeError, out: &mut Vec<u8>) {
    out.error(format_args!("ERR {error}"));
}

impl<'a> Wanted<'a> {
    /// Parses the arguments. An error is the text of the reply.
    fn read(arguments: &[&'a [u8]]) -> Result<Self, String> {
        let (key, max_burst, count, period, quantity) = match arguments {
            [_, key, max_burst, count, period] => (key, max_burst, count, period, None),
            [_, key, max_burst, count, period, quantity] => (key, max_burst, count, period, Some(*quantity)),
            _ => {
                let usage = "cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
                return Err(format!("Cell error: Usage: {usage}"));
            }
        };
        let key = std::str::from_utf8(key)
            .map_err(|_| "ERR the key is not UTF-8; write other bytes in hexadecimal")?;
        // `max_burst` comes on top of the one request that is always possible.
        let size = amount("max_burst", max_burst, COUNT_MAX - 1)?.saturating_add(1);
        let count = amount("count", count, COUNT_MAX)?;
        let period_seconds = amount("period", period, PERIOD_SECONDS_MAX)?;
        let quantity =
            quantity.map_or(Ok(1), |quantity| amount("quantity", quantity, i64::MAX.unsigned_abs()))?;
        if count == 0 || period_seconds == 0 {
            return Err("Cell error: Zero rates are not supported".to_owned());
        }
        Ok(Self { key, choice: Choice { size, count, period_seconds }, quantity })
    }
}

fn amount(what: &str, text: &[u8], most: u64) -> Result<u64, String> {
    let Some(number) = number(text) else {
        let shown = String::from_utf8_lossy(text);
        let shown: String = shown.chars().take(80).collect();
        return Err(format!("Cell error: Couldn't parse as integer: {shown}"));
    };
    let fits = u64::try_from(number).ok().filter(|number| *number <= most);
    fits.ok_or_else(|| format!("ERR {what} is {number}; it must be from 0 to {most}"))
}

/// A number as redis-cell reads it: unlike the protocol's numbers, it may have a plus or leading zeros.
fn number(text: &[u8]) -> Option<i64> {
    request::number(text).or_else(|| std::str::from_utf8(text).ok()?.parse().ok())
}

impl Chosen {
    /// The fast path: a quantity of one, of a bucket in this process.
    fn ask_now(&self, key: &str, quantity: u64) -> Option<Throttled> {
        if quantity != 1 {
            return None;
        }
        let mut seen = None;
        let decided = self.handle.decide_and_read(key, None, |reading| seen = Some(reading))?;
        let retry_after = match decided {
            FastDecision::Granted { .. } => None,
            FastDecision::Denied { now, retry_at, .. } => Some(retry_at.since(now)),
        };
        Some(Throttled::new(self, quantity, retry_after, seen.as_ref()))
    }

    /// The take of a quantity. A quantity larger than the bucket takes nothing and only reads.
    fn ask<'l>(&'l self, key: &'l str, quantity: u64) -> tollway::Take<'l, tollway::Tries> {
        let take = self.handle.try_take().subject(key);
        let take = match quantity {
            1 => take,
            _ if quantity > self.size => take.cost(tollway::core::REQUESTS, 0),
            _ => take.cost(tollway::core::REQUESTS, quantity),
        };
        take.with_readings()
    }
}

impl Throttled {
    /// Denied for a second.
    fn for_now(chosen: &Chosen) -> Self {
        let retry_after = Some(RETRY_AFTER);
        Self { limited: true, size: chosen.size, remaining: 0, retry_after, reset_after: RETRY_AFTER }
    }

    fn of(chosen: &Chosen, quantity: u64, taken: &Taken<'_>) -> Self {
        let denied = match taken {
            Taken::Granted(_) => None,
            Taken::Denied(denied) => Some(denied.decision().wait()),
        };
        let reading = taken.decision().and_then(|decision| decision.charges.first()?.readings.first());
        Self::new(chosen, quantity, denied, reading)
    }

    fn new(chosen: &Chosen, quantity: u64, denied: Option<Span>, reading: Option<&Reading>) -> Self {
        // Without the store there is no reading: report an empty bucket.
        let unknown = || (0, chosen.refill, None);
        let seen = |reading: &Reading| {
            let reset_after = reading.resets_at.since(reading.as_of);
            // A bucket that holds less than was taken from a larger one denies even a quantity of zero.
            let overdrawn =
                (quantity == 0 && reading.used > reading.capacity).then(|| minus(reset_after, chosen.refill));
            (reading.remaining, reset_after, overdrawn)
        };
        let (remaining, reset_after, overdrawn) = reading.map_or_else(unknown, seen);
        let retry_after = denied.or(overdrawn);
        let limited = retry_after.is_some() || quantity > chosen.size;
        Self { limited, size: chosen.size, remaining, retry_after, reset_after }
    }

    fn write(self, out: &mut Vec<u8>) {
        out.array(5);
        out.integer(i64::from(self.limited));
        out.integer(whole(self.size));
        out.integer(whole(self.remaining));
        out.integer(self.retry_after.map_or(-1, seconds));
        out.integer(seconds(self.reset_after));
    }
}

fn minus(span: Span, less: Span) -> Span {
    Span::from_micros(span.as_micros().saturating_sub(less.as_micros()))
}

/// Rounds like redis-cell: down to milliseconds, then up to seconds.
fn seconds(span: Span) -> i64 {
    let milliseconds = span.as_micros() / 1_000;
    whole(milliseconds.div_ceil(1_000))
}

/// Cannot overflow: all numbers of the engine are below 2^53.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollway::{Limiter, Timestamp};
    use tollway_testkit::ManualClock;

    use super::*;
    use crate::resp::chosen::ChosenLimits;

    /// B10: the sequence that redis-cell is tested with: a bucket of five, one more each second.
    #[test]
    fn replies_match_redis_cell() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let limiter = Limiter::builder().clock(clock.clone()).build();
        let limits = ChosenLimits::default();
        let chosen = limits.find(&limiter, Choice { size: 5, count: 1, period_seconds: 1 }).unwrap();
        let mut passed = 0;
        // Milliseconds, quantity, limited, remaining, retry_after, reset_after.
        for (number, (at, quantity, limited, remaining, retry_after, reset_after)) in [
            (0, 6, 1, 5, -1, 0),
            (0, 1, 0, 4, -1, 1),
            (0, 1, 0, 3, -1, 2),
            (0, 1, 0, 2, -1, 3),
            (0, 1, 0, 1, -1, 4),
            (0, 1, 0, 0, -1, 5),
            (0, 1, 1, 0, 1, 5),
            (3_000, 1, 0, 2, -1, 3),
            (3_100, 1, 0, 1, -1, 4),
            (4_000, 1, 0, 1, -1, 4),
            (8_000, 1, 0, 4, -1, 1),
            (9_500, 1, 0, 4, -1, 1),
            (9_500, 0, 0, 4, -1, 1),
            (9_500, 2, 0, 2, -1, 3),
            (9_500, 5, 1, 2, 3, 3),
            (9_500, 99, 1, 2, -1, 3),
        ]
        .into_iter()
        .enumerate()
        {
            clock.advance(Span::from_millis(at - passed));
            passed = at;
            let taken = chosen.ask("foo", quantity).now().unwrap();
            let mut out = Vec::new();
            Throttled::of(&chosen, quantity, &taken).write(&mut out);
            // The fast path would take one more, so it uses another key with the same history.
            let again = chosen.ask_now("bar", quantity).unwrap_or_else(|| {
                Throttled::of(&chosen, quantity, &chosen.ask("bar", quantity).now().unwrap())
            });
            let mut quick = Vec::new();
            again.write(&mut quick);
            assert_eq!(quick, out, "fast path and slow path agree");
            let expected =
                format!("*5\r\n:{limited}\r\n:5\r\n:{remaining}\r\n:{retry_after}\r\n:{reset_after}\r\n");
            assert_eq!(String::from_utf8(out).unwrap(), expected, "step {number}");
        }
    }

    #[test]
    fn bucket_shrunk_below_its_usage_denies_until_refilled() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let limiter = Limiter::builder().clock(clock).build();
        let limits = ChosenLimits::default();
        let of = |size| limits.find(&limiter, Choice { size, count: 1, period_seconds: 1 }).unwrap();
        assert!(of(10).ask("foo", 10).now().unwrap().is_granted());
        let small = of(3);
        let looked = Throttled::of(&small, 0, &small.ask("foo", 0).now().unwrap());
        let (retry_after, reset_after) = (Some(Span::from_secs(7)), Span::from_secs(10));
        assert_eq!(looked, Throttled { limited: true, size: 3, remaining: 0, retry_after, reset_after });
    }

    #[test]
    fn seconds_are_rounded_like_redis_cell() {
        let micros = [0, 999, 1_000, 999_999, 1_000_000, 1_000_999, 1_001_000];
        assert_eq!(micros.map(|micros| seconds(Span::from_micros(micros))), [0, 0, 1, 1, 1, 1, 2]);
    }
}
