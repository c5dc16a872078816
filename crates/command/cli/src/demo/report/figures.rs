//! The figures of each side: what is printed in one column or two.

use anstyle::Style;
use tollway::Span;

use super::{Alone, DemoReport, VendorCounts, WholeMinutes, WithTollway};
use crate::humanize::{count, counted, span};
use crate::output::{BAD, GOOD, WARN};

/// From this share on, the quota counts as used.
const USED_PERMILLE: u64 = 990;

/// One figure: what it is, its value, and a remark.
pub(super) struct Figure {
    pub(super) what: &'static str,
    pub(super) value: String,
    pub(super) style: Style,
    pub(super) aside: String,
}

impl Figure {
    fn new(what: &'static str, value: u64) -> Self {
        Self { what, value: count(value), style: Style::new(), aside: String::new() }
    }

    fn judged(self, is_good: bool) -> Self {
        Self { style: if is_good { GOOD } else { BAD }, ..self }
    }

    fn aside(self, aside: impl Into<String>) -> Self {
        Self { aside: aside.into(), ..self }
    }
}

impl DemoReport {
    /// The figures of the workers under Tollway.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let WithTollway { vendor, audit, redriven, .. } = &self.with_tollway;
        let killed = vendor.killed.as_ref().map(|killed| format!("during its call for {}", killed.document));
        let dead = if audit.dead > 0 { format!("{} left", count(audit.dead)) } else { String::new() };
        let done = Figure::new("jobs done", audit.done).aside(format!("of {}", count(self.jobs)));
        let mut figures = vec![
            Figure::new("calls", vendor.calls).aside(self.with_tollway.reasons()),
            vendor.refused(),
            vendor.share(),
            self.changes().aside(self.limits()),
            vendor.workers_killed().aside(killed.unwrap_or_default()),
            done.judged(self.interrupted || audit.done == self.jobs),
        ];
        figures.extend(self.interrupted.then(|| Figure::new("jobs still queued", audit.open)));
        figures.extend([
            Figure::new("jobs lost", audit.lost).judged(audit.lost == 0),
            Figure::new("completions committed twice", audit.committed_twice)
                .judged(audit.committed_twice == 0),
            Figure::new("dead letters redriven", *redriven)
                .judged(self.interrupted || audit.dead == 0)
                .aside(dead),
            vendor.time(),
        ]);
        figures
    }

    /// The figures of the workers without Tollway.
    pub(super) fn figures_alone(&self, alone: &Alone) -> Vec<Figure> {
        let vendor = &alone.vendor;
        let done = Figure::new("jobs done", alone.done).judged(self.interrupted || alone.done == self.jobs);
        let lost = Figure::new("jobs lost", alone.lost).judged(alone.lost == 0);
        let mut figures = vec![Figure::new("calls", vendor.calls), vendor.refused(), vendor.share()];
        figures.extend([self.changes(), vendor.workers_killed(), done]);
        figures.extend(self.interrupted.then(|| Figure::new("jobs still queued", alone.open)));
        figures.extend([lost, vendor.time()]);
        figures
    }

    fn changes(&self) -> Figure {
        Figure::new("changes of the limit", self.limit_changes.len() as u64)
    }

    /// `200 to 100 to 200`.
    fn limits(&self) -> String {
        if self.limit_changes.is_empty() {
            return String::new();
        }
        let limits = std::iter::once(self.limit).chain(self.limit_changes.iter().map(|change| change.limit));
        limits.map(count).collect::<Vec<_>>().join(" to ")
    }
}

impl WithTollway {
    /// What the calls were made for.
    fn reasons(&self) -> String {
        let mut reasons = vec![format!("{} completed", count(self.audit.completions))];
        reasons.extend((self.failed_tries > 0).then(|| format!("{} failed", count(self.failed_tries))));
        reasons.extend((self.repeated_calls > 0).then(|| format!("{} repeated", count(self.repeated_calls))));
        reasons.join(", ")
    }
}

impl VendorCounts {
    fn refused(&self) -> Figure {
        Figure::new("refused by the vendor", self.refusals).judged(self.refusals == 0)
    }

    fn workers_killed(&self) -> Figure {
        Figure::new("workers killed", u64::from(self.killed.is_some()))
    }

    fn share(&self) -> Figure {
        let WholeMinutes { quota, used, count: minutes, .. } = self.whole_minutes;
        let figure = Figure::new("share of the quota used", 0);
        let Some(permille) = (used * 1_000).checked_div(quota) else {
            return Figure { value: "-".to_owned(), ..figure }.aside("no full minute");
        };
        let value = match permille % 10 {
            0 => format!("{} %", permille / 10),
            tenth => format!("{}.{tenth} %", permille / 10),
        };
        let minutes = counted(minutes, "full minutes");
        let aside = format!("{} of {} in {minutes}", count(used), count(quota));
        Figure { value, style: if self.used_quota() { GOOD } else { WARN }, ..figure }.aside(aside)
    }

    /// Whether nearly all of the quota was used.
    pub(super) fn used_quota(&self) -> bool {
        let WholeMinutes { quota, used, .. } = self.whole_minutes;
        used * 1_000 >= quota * USED_PERMILLE
    }

    fn time(&self) -> Figure {
        Figure { value: span(Span::from_millis(self.duration_ms)), ..Figure::new("time", 0) }
    }
}
