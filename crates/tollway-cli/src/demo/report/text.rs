//! The report as text, with commands to try next.

use std::env;
use std::path::Path;

use anstyle::Style;

use super::{Loss, Report, WholeMinutes};
use crate::humanize::{count, counted};
use crate::output::{BAD, FAINT, GOOD, STRONG, WARN};

/// Printed if there were calls outside full minutes.
const WHOLE_MINUTES: &str = "\
Workers start in the middle of a minute. Only full minutes count towards the
share of the quota; refusals always count.";

/// Printed if more of the quota is unused than a killed worker can have lost.
const TOO_SLOW: &str = "\
The workers did not use the whole quota: there are too few for this limit, or
the machine was busy.";

impl Report {
    /// The lines of the report.
    pub(in crate::demo) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.title(), String::new()];
        lines.extend([self.calls_line(), self.refusals_line(), self.most_line(), self.share_line()]);
        lines.extend(self.killed.iter().flat_map(Loss::lines));
        if self.with_tollway && self.whole_minutes.unused() > 1 {
            lines.extend([String::new(), format!("{WARN}{TOO_SLOW}{WARN:#}")]);
        }
        if self.calls_outside() > 0 {
            lines.extend([String::new(), format!("{FAINT}{WHOLE_MINUTES}{FAINT:#}")]);
        }
        lines.extend([String::new(), "Try next:".to_owned()]);
        lines.extend(next_steps(self.with_tollway));
        lines
    }

    fn title(&self) -> String {
        let early = if self.interrupted { ", ended early" } else { "" };
        let how = if self.with_tollway { "With" } else { "Without" };
        let minutes = counted(self.whole_minutes.count, "full minutes");
        format!("{STRONG}{how} Tollway: {minutes} of {}{early}{STRONG:#}", counted(self.limit, "requests"))
    }

    /// Calls outside full minutes.
    fn calls_outside(&self) -> u64 {
        self.minutes.iter().filter(|minute| !minute.whole).map(|minute| minute.calls).sum()
    }

    fn calls_line(&self) -> String {
        let aside = match self.calls_outside() {
            0 => String::new(),
            calls => format!("{} outside full minutes", count(calls)),
        };
        line("calls", Style::new(), &count(self.calls), &aside)
    }

    fn refusals_line(&self) -> String {
        line("refused by the vendor", judged(self.refusals == 0), &count(self.refusals), "")
    }

    fn most_line(&self) -> String {
        let most = self.most_calls_in_a_minute;
        let aside = format!("of {} allowed", count(self.limit));
        line("most calls in one minute", judged(most <= self.limit), &count(most), &aside)
    }

    fn share_line(&self) -> String {
        let WholeMinutes { quota, used, .. } = self.whole_minutes;
        let Some(permille) = (used * 1_000).checked_div(quota) else {
            return line("share of the quota used", Style::new(), "-", "no full minute");
        };
        let percent = match permille % 10 {
            0 => format!("{} %", permille / 10),
            tenth => format!("{}.{tenth} %", permille / 10),
        };
        let aside = format!("{} of {} calls in full minutes", count(used), count(quota));
        line("share of the quota used", if permille >= 990 { GOOD } else { WARN }, &percent, &aside)
    }
}

impl Loss {
    fn lines(&self) -> Vec<String> {
        let replaced = self.replaced_by.map_or_else(String::new, |by| format!("replaced by worker {by}"));
        let killed = line("killed", WARN, &format!("worker {}", self.worker), &replaced);
        let lost = self.calls_lost_at_most.map(|calls| match calls {
            0 => line("calls lost with it", GOOD, "0", "the whole quota was used"),
            _ => line("calls lost with it", WARN, "1 call", "at most: its permit stays charged"),
        });
        std::iter::once(killed).chain(lost).collect()
    }
}

fn judged(is_good: bool) -> Style {
    if is_good { GOOD } else { BAD }
}

fn line(what: &str, style: Style, value: &str, aside: &str) -> String {
    let aside = if aside.is_empty() { String::new() } else { format!("   {FAINT}{aside}{FAINT:#}") };
    format!("  {what:<24} {style}{value:>9}{style:#}{aside}")
}

fn next_steps(with_tollway: bool) -> Vec<String> {
    let tollway = program();
    let contrast = match with_tollway {
        true => ("the same demo without Tollway: the vendor refuses calls", "demo --without"),
        false => ("the same demo with Tollway: no refusals", "demo"),
    };
    let steps = [
        contrast,
        (
            "take from a limit in a shell; the third take in a minute waits",
            "take api --limit \"2 requests / minute\"",
        ),
        ("how long a backlog takes", "plan --items 1M --calls 2 --limit \"200 requests / minute\""),
    ];
    let step = |(why, command)| [format!("  {FAINT}# {why}{FAINT:#}"), format!("  {tollway} {command}")];
    steps.into_iter().flat_map(step).collect()
}

/// The command as it was started, so that the examples can be typed; only its name if the path is long.
fn program() -> String {
    let started_as = env::args().next().unwrap_or_default();
    let is_short = !started_as.is_empty() && started_as.len() <= 24 && Path::new(&started_as).is_relative();
    if is_short { started_as } else { "tollway".to_owned() }
}
