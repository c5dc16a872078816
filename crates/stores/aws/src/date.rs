//! This process's clock, and how far it is off: AWS says with every reply what time it is.
//!
//! A `Date` is cut off to whole seconds and was written some time between sending and receiving, so one reply only bounds
//! the error, by a second and the time it took. Replies that agree narrow the bounds; one that does not has seen the
//! clock step, and they start again. A clock counts as wrong only when that is certain: a slow reply proves nothing.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use aws_smithy_types::date_time::Format;
use tollway_core::{Clock, Span, Timestamp};

/// The largest error that decisions allow for: windows keep this distance from a vendor's (`edge`).
pub const CLOCK_ERROR_MAX: Span = Span::from_secs(2);

/// What a `Date` leaves out.
const CUT_OFF: i64 = 1_000_000;

/// Wall time as the machine has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the store's time on AWS is this machine's")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

/// Compares a clock with the replies of AWS: add it to a client as an interceptor.
#[derive(Clone)]
pub struct ClockCheck {
    clock: Arc<dyn Clock>,
    measured: Arc<Mutex<Option<Measured>>>,
}

/// A clock that is off by more than [`CLOCK_ERROR_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this machine's clock says {ours} and that of AWS {theirs}: set it right, it is off by {off} or more"
)]
pub struct ClockOff {
    /// What our clock said when the last reply came.
    pub ours: Timestamp,
    /// What the reply said.
    pub theirs: Timestamp,
    /// By at least so much.
    pub off: Span,
}

tollway_core::debug_as_display!(ClockOff);

/// Our clock less theirs, in microseconds: not less than `least` and not more than `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Measured {
    ours: Timestamp,
    theirs: Timestamp,
    least: i64,
    most: i64,
}

impl Measured {
    fn of_reply(sent: Timestamp, ours: Timestamp, theirs: Timestamp) -> Self {
        let micros = |time: Timestamp| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let date = micros(theirs);
        Self { ours, theirs, least: micros(sent) - date - CUT_OFF, most: micros(ours) - date }
    }

    fn narrowed_by(self, newer: Self) -> Self {
        let (least, most) = (self.least.max(newer.least), self.most.min(newer.most));
        if least <= most { Self { least, most, ..newer } } else { newer }
    }

    /// The smallest error that explains all replies.
    fn error(self) -> Span {
        Span::from_micros(self.least.max(self.most.saturating_neg()).max(0).unsigned_abs())
    }
}

impl ClockCheck {
    /// A check of this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, measured: Arc::default() }
    }

    /// The error of the clock, as far as it is certain; none before the first reply.
    pub fn error(&self) -> Option<Span> {
        self.measured().map(Measured::error)
    }

    /// That the clock is off by more than decisions allow for, if it is.
    pub fn off(&self) -> Option<ClockOff> {
        let measured = self.measured()?;
        let off = measured.error();
        (off > CLOCK_ERROR_MAX).then_some(ClockOff { ours: measured.ours, theirs: measured.theirs, off })
    }

    fn measured(&self) -> Option<Measured> {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, newer: Measured) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        *measured = Some(measured.map_or(newer, |known| known.narrowed_by(newer)));
    }
}

impl fmt::Debug for ClockCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockCheck").field("measured", &self.measured()).finish_non_exhaustive()
    }
}

/// When a request went out.
#[derive(Clone, Copy, Debug)]
struct SentAt(Timestamp);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

impl Intercept for ClockCheck {
    fn name(&self) -> &'static str {
        "ClockCheck"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        state.interceptor_state().store_put(SentAt(self.clock.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let theirs = date.and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
        if let (Some(theirs), Some(SentAt(sent))) = (theirs, state.load::<SentAt>()) {
            let theirs = Timestamp::from_secs(u64::try_from(theirs.secs()).unwrap_or(0));
            self.note(Measured::of_reply(*sent, self.clock.now(), theirs));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_767_268_800);

    /// Replies to requests that took 10 ms, to a clock that is off by so many milliseconds.
    fn replies(off: i64, at: impl IntoIterator<Item = u64>) -> ClockCheck {
        let check = ClockCheck::new(Arc::new(SystemClock));
        for millis in at {
            let ours = |true_millis: u64| {
                let true_time = NOON.plus(Span::from_millis(true_millis)).as_millis();
                Timestamp::from_millis(true_time.saturating_add_signed(off))
            };
            let date = Timestamp::from_secs(NOON.plus(Span::from_millis(millis + 5)).as_millis() / 1_000);
            check.note(Measured::of_reply(ours(millis), ours(millis + 10), date));
        }
        check
    }

    #[test]
    fn nothing_is_known_before_the_first_reply() {
        assert_eq!(replies(9_000, []).error(), None);
        assert_eq!(replies(9_000, []).off(), None);
    }

    #[test]
    fn one_reply_bounds_the_error_by_a_second() {
        assert_eq!(replies(0, [300]).error(), Some(Span::ZERO));
        assert_eq!(replies(2_500, [300]).off(), None, "it may be a little less than two seconds");
        let off = replies(3_500, [300]).off().unwrap();
        assert_eq!((off.theirs, off.ours), (NOON, NOON.plus(Span::from_millis(3_810))));
        assert!(replies(-3_500, [300]).off().is_some());
    }

    #[test]
    fn replies_that_agree_narrow_it() {
        let spread = || (0..40).map(|reply| reply * 2_030);
        assert!(replies(1_900, spread()).off().is_none());
        assert!(replies(-1_900, spread()).off().is_none());
        assert!(replies(2_100, spread()).off().is_some());
        assert!(replies(-2_100, spread()).off().is_some());
    }

    #[test]
    fn a_corrected_clock_is_trusted_again() {
        let check = replies(5_000, [100]);
        assert!(check.off().is_some());
        check.note(Measured::of_reply(NOON, NOON.plus(Span::from_millis(10)), NOON));
        assert_eq!(check.off(), None);
    }

    #[test]
    fn a_slow_reply_proves_no_clock_error() {
        let check = ClockCheck::new(Arc::new(SystemClock));
        check.note(Measured::of_reply(NOON, NOON.plus(Span::from_secs(30)), NOON.plus(Span::from_secs(29))));
        assert_eq!(check.off(), None);
    }
}
