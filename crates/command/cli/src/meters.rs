//! Meters in the output: a bar in text, an object in JSON.

use anstyle::Style;
use serde::Serialize;
use tollway::core::Reading;
use tollway::source::Origin;
use tollway::{Limit, LimitUsage, Policy, Timestamp, Usage};

use crate::humanize;
use crate::layout::{COLUMNS, INDENT};
use crate::origin;
use crate::output::{BAD, FAINT, GOOD, WARN};

/// How a meter is drawn: the cells of its bar, and whether the time of its reset is shown. The first that fits is used.
const LAYOUTS: [(u64, bool); 4] = [(20, true), (10, true), (20, false), (10, false)];

/// One meter, as it appears in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Meter {
    name: String,
    unit: String,
    /// The amount per period.
    amount: u64,
    /// The largest amount available at once.
    capacity: u64,
    used: u64,
    remaining: u64,
    /// When nothing is used any more.
    reset_at: String,
    reset_ms: u64,
    /// The time of the figures: in the future if other takes are booked ahead.
    as_of: String,
    /// The end of the running window, if takes are booked past it: no take is granted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_until: Option<String>,
    /// The origin of the amount, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip)]
    origin: Option<Origin>,
    #[serde(skip)]
    resets_at: Timestamp,
    #[serde(skip)]
    read_at: Timestamp,
    #[serde(skip)]
    closed: Option<Timestamp>,
    /// When the window of the figures begins.
    #[serde(skip)]
    window_start: Timestamp,
}

impl Meter {
    fn new(limit: &Limit, reading: &Reading, now: Timestamp) -> Self {
        let Reading { capacity, used, remaining, resets_at, as_of, .. } = *reading;
        let holds_slots = limit.has_slots();
        let closed = limit.closed_until(as_of, resets_at, now);
        Self {
            name: limit.name().to_string(),
            unit: if holds_slots { "slots".to_owned() } else { limit.unit().to_string() },
            amount: limit.amount(),
            capacity,
            used,
            remaining,
            reset_at: resets_at.to_string(),
            reset_ms: resets_at.since(now).as_micros().div_ceil(1_000),
            as_of: as_of.to_string(),
            from: None,
            origin: None,
            resets_at,
            read_at: as_of,
            closed_until: closed.map(|until| until.to_string()),
            closed,
            window_start: limit.window_start(as_of, resets_at),
        }
    }

    /// All meters of a policy, as a decision reports them.
    pub(crate) fn of_readings(limits: &[Limit], readings: &[Reading], now: Timestamp) -> Vec<Self> {
        limits.iter().zip(readings).map(|(limit, reading)| Self::new(limit, reading, now)).collect()
    }

    /// All meters of a policy, as the limiter reports their use.
    pub(crate) fn of_usage(policy: &Policy, usage: &Usage, now: Timestamp) -> Vec<Self> {
        let reading = |limit: &LimitUsage| {
            let LimitUsage { capacity, used, remaining, resets_at, as_of, .. } = *limit;
            Reading { capacity, used, remaining, resets_at, as_of, grants: 0 }
        };
        let readings: Vec<Reading> = usage.limits.iter().map(reading).collect();
        Self::of_readings(policy.limits(), &readings, now)
    }

    /// Adds the origin of its amount.
    pub(crate) fn with_origin(mut self, origin: impl FnOnce(&str) -> Origin) -> Self {
        let origin = origin(&self.name);
        self.from = Some(origin::word(&origin));
        self.origin = Some(origin);
        self
    }

    /// The origin of its amount as text, unless it is the config.
    pub(crate) fn origin_words(&self, now: Timestamp) -> Option<String> {
        let origin = self.origin.as_ref().filter(|origin| **origin != Origin::Config)?;
        Some(format!("{}: {} {}", self.name, humanize::count(self.amount), origin::words(origin, now)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Up to when other takes are booked, if any are.
    pub(crate) fn booked_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.read_at.since(now) > Limit::CLOCKS_APART_MAX).then_some(self.read_at)
    }

    /// `booked ahead: 5 of 200 requests of 14:01:00`, if takes are booked past the running window.
    pub(crate) fn booked_ahead(&self, now: Timestamp) -> Option<String> {
        let closed = self.closed?;
        // The figures are those of the window of the last booking, which is not always the next one.
        let of = humanize::moment(closed.max(self.window_start), now);
        Some(format!("booked ahead: {} of {of}", self.used_text()))
    }

    /// The meters as indented lines of text that fit the screen. A name that is too long gets a line of its own.
    pub(crate) fn lines(meters: &[Self], now: Timestamp) -> Vec<String> {
        let width = meters.iter().map(|meter| meter.name.len()).max().unwrap_or(0);
        let longest = |(cells, clock)| {
            let texts = meters.iter().map(|meter| meter.now_text().len() + meter.next_text(now, clock).len());
            let cells = usize::try_from(cells).unwrap_or(0);
            texts.max().unwrap_or(0) + cells + 3 * INDENT.len()
        };
        let fitting = LAYOUTS.into_iter().find(|layout| INDENT.len() + width + longest(*layout) <= COLUMNS);
        let Some(layout) = fitting else {
            let own_line =
                |meter: &Self| [format!("{INDENT}{}", meter.name), meter.line("", 0, (10, false), now)];
            return meters.iter().flat_map(own_line).collect();
        };
        meters.iter().map(|meter| meter.line(&meter.name, width, layout, now)).collect()
    }

    fn line(&self, name: &str, width: usize, (length, clock): (u64, bool), now: Timestamp) -> String {
        let style = self.style();
        let filled = if self.closed.is_some() { length } else { cells(self.used, self.capacity, length) };
        let bar: String = (0..length).map(|cell| if cell < filled { '█' } else { '░' }).collect();
        let (used, reset) = (self.now_text(), self.next_text(now, clock));
        format!(
            "{INDENT}{name:width$}{INDENT}{style}{bar}{style:#}{INDENT}{used}{INDENT}{FAINT}{reset}{FAINT:#}"
        )
    }

    /// What is used of the running window.
    fn now_text(&self) -> String {
        match self.closed {
            Some(_) => "this window is used up".to_owned(),
            None => self.used_text(),
        }
    }

    /// When it goes on.
    fn next_text(&self, now: Timestamp, clock: bool) -> String {
        match (self.closed, clock) {
            (None, _) => self.reset_text(now, clock),
            (Some(next), true) => format!("next call at {}", humanize::moment(next, now)),
            (Some(next), false) => format!("next call in {}", humanize::span(next.since(now))),
        }
    }

    /// `3 of 200 requests`.
    pub(crate) fn used_text(&self) -> String {
        format!("{} of {}", humanize::count(self.used), humanize::counted(self.capacity, &self.unit))
    }

    /// When it resets; with the time of the clock if there is room for it.
    pub(crate) fn reset_text(&self, now: Timestamp, clock: bool) -> String {
        if self.used == 0 {
            return "unused".to_owned();
        }
        let wait = humanize::span(self.resets_at.since(now));
        match clock {
            true => format!("resets in {wait} ({})", humanize::moment(self.resets_at, now)),
            false => format!("resets in {wait}"),
        }
    }

    /// How much of it is used, in thousandths: more than 1,000 after its limit was lowered.
    pub(crate) fn thousandths_used(&self) -> u64 {
        let thousandths = u128::from(self.used) * 1_000 / u128::from(self.capacity.max(1));
        u64::try_from(thousandths).unwrap_or(u64::MAX)
    }

    /// Whether anything is used.
    pub(crate) fn is_used(&self) -> bool {
        self.used > 0
    }

    fn style(&self) -> Style {
        if self.remaining == 0 || self.closed.is_some() {
            BAD
        } else if self.used.saturating_mul(10) >= self.capacity.saturating_mul(8) {
            WARN
        } else {
            GOOD
        }
    }
}

/// How many cells of the bar are filled: zero only if nothing is used, all only if nothing is left.
fn cells(used: u64, capacity: u64, length: u64) -> u64 {
    if used >= capacity {
        return length;
    }
    let cells = u128::from(used) * u128::from(length) / u128::from(capacity.max(1));
    u64::try_from(cells).unwrap_or(length).clamp(u64::from(used > 0), length - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_bookings_have_passed_is_used_up() {
        let minute = |minute: u64, second: u64| Timestamp::from_secs(28_000_000 * 60 + 60 * minute + second);
        let limit: Limit = "200 requests / minute".parse().unwrap();
        let reading = Reading {
            capacity: 200,
            used: 5,
            remaining: 195,
            resets_at: minute(2, 0),
            as_of: minute(1, 0),
            grants: 0,
        };
        let meter = Meter::new(&limit, &reading, minute(0, 40));
        let line = Meter::lines(std::slice::from_ref(&meter), minute(0, 40)).remove(0);
        assert!(line.contains("this window is used up") && line.contains("next call at "), "{line}");
        assert!(
            meter.booked_ahead(minute(0, 40)).unwrap().starts_with("booked ahead: 5 of 200 requests of ")
        );
        let json = serde_json::to_value(&meter).unwrap();
        assert_eq!(json["closed_until"], minute(1, 0).to_string());
        assert_eq!(json["as_of"], minute(1, 0).to_string());
    }

    #[test]
    fn bar_is_empty_or_full_only_if_the_meter_is() {
        let filled = [(0, 200), (1, 200), (100, 200), (199, 200), (200, 200), (300, 200), (0, 1)];
        assert_eq!(filled.map(|(used, capacity)| cells(used, capacity, 20)), [0, 1, 10, 19, 20, 20, 0]);
        assert_eq!(cells(u64::MAX - 1, u64::MAX, 20), 19);
    }
}
