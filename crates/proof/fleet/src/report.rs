//! What a run shows.

use std::fmt::Write;

use tollway_core::WhenStoreFails;

use crate::scenario::{Event, SECONDS, Scenario, WINDOW_SECONDS};
use crate::server::Ended;

/// What is counted while a simulation runs, by window.
#[derive(Debug, Default)]
pub(crate) struct Tally(Vec<Window>);

#[derive(Clone, Debug, Default)]
struct Window {
    granted: u64,
    degraded: u64,
    denied: u64,
    failed: u64,
    /// The most units that the store counts and no caller has.
    held_max: u64,
    /// The same at the last sample, just before the window ended.
    held_last: u64,
}

impl Tally {
    fn window(&mut self, window: usize) -> &mut Window {
        if self.0.len() <= window {
            self.0.resize(window + 1, Window::default());
        }
        &mut self.0[window]
    }

    pub(crate) fn count(&mut self, window: usize, ended: Ended) {
        let window = self.window(window);
        match ended {
            Ended::Granted { degraded } => {
                window.granted += 1;
                window.degraded += u64::from(degraded);
            }
            Ended::Denied => window.denied += 1,
            Ended::Failed | Ended::NoServer => window.failed += 1,
        }
    }

    pub(crate) fn note_used(&mut self, window: usize, used: u64) {
        let window = self.window(window);
        window.held_last = used.saturating_sub(window.granted);
        window.held_max = window.held_max.max(window.held_last);
    }
}

impl Window {
    /// Units that the window ended with although a caller was denied one.
    fn stranded(&self) -> u64 {
        self.held_last.min(self.denied)
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was simulated.
    pub scenario: Scenario,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How many takes ended.
    pub takes: u64,
    /// How many were granted in each window.
    pub granted: Vec<u64>,
    /// How many of them without the store.
    pub degraded: u64,
    /// How many got no decision.
    pub failed: u64,
    /// How many calls the store was sent.
    pub calls: u64,
    /// The most units at a time that were leased and not spent.
    pub held_max: u64,
    /// How many units a window ended with that the store counted and no caller got, although callers were denied: the worst
    /// window.
    pub stranded_max: u64,
    /// How many were granted beyond the limit of their window.
    pub over: u64,
}

impl Report {
    pub(crate) fn new(scenario: Scenario, seed: u64, calls: u64, tally: &Tally) -> Self {
        // The last moment of a simulation may begin another window.
        let windows = &tally.0[..usize::try_from(SECONDS / WINDOW_SECONDS).expect("a few windows")];
        let sum = |of: fn(&Window) -> u64| windows.iter().map(of).sum::<u64>();
        let max = |of: fn(&Window) -> u64| windows.iter().map(of).max().unwrap_or_default();
        let granted: Vec<u64> = windows.iter().map(|window| window.granted).collect();
        Self {
            scenario,
            seed,
            takes: sum(|window| window.granted + window.denied + window.failed),
            degraded: sum(|window| window.degraded),
            failed: sum(|window| window.failed),
            calls,
            held_max: max(|window| window.held_max),
            stranded_max: max(Window::stranded),
            over: granted.iter().map(|granted| granted.saturating_sub(scenario.limit())).sum(),
            granted,
        }
    }

    /// The share of the limit that the window with the fewest grants used, in thousandths.
    pub fn used_min(&self) -> u64 {
        self.granted.iter().min().map_or(0, |granted| granted * 1_000 / self.scenario.limit())
    }

    /// The share of the limit that all windows used, in thousandths.
    pub fn used(&self) -> u64 {
        self.granted.iter().sum::<u64>() * 1_000 / (self.scenario.limit() * self.granted.len() as u64)
    }
}

/// The reports as a table.
pub fn table(reports: &[Report]) -> String {
    let mut table =
        "what happens        when_store_fails  processes  lease  calls/s  calls/take  used %  worst %  \
                     leased %  stranded %  failed %  local %  over\n"
            .to_owned();
    for report in reports {
        let scenario = &report.scenario;
        let of_limit = |units: u64| percent(units * 1_000 / scenario.limit());
        writeln!(
            table,
            "{:<18}  {:<16}  {:>9}  {:<5}  {:>7}  {:>7}.{:02}  {:>6}  {:>7}  {:>8}  {:>10}  {:>8}  {:>7}  {:>4}",
            event(scenario.event),
            mode(scenario.when_store_fails),
            scenario.servers,
            if scenario.lease { "on" } else { "off" },
            report.calls / SECONDS,
            report.calls / report.takes,
            report.calls * 100 / report.takes % 100,
            percent(report.used()),
            percent(report.used_min()),
            of_limit(report.held_max),
            of_limit(report.stranded_max),
            of_takes(report.failed, report.takes),
            of_takes(report.degraded, report.takes),
            report.over,
        )
        .expect("a text takes all");
    }
    table
}

fn event(event: Event) -> &'static str {
    match event {
        Event::Nothing => "nothing",
        Event::DemandMoves => "demand moves",
        Event::ServerKilled => "a server is killed",
        Event::RegionCutOff => "half is cut off",
        Event::StoreAway => "the store is away",
    }
}

fn mode(mode: WhenStoreFails) -> &'static str {
    match mode {
        WhenStoreFails::Open => "open",
        WhenStoreFails::Local => "local",
        WhenStoreFails::Closed => "closed",
    }
}

fn of_takes(part: u64, takes: u64) -> String {
    percent(part * 1_000 / takes)
}

/// Thousandths as a percentage with one digit after the point.
fn percent(thousandths: u64) -> String {
    format!("{}.{}", thousandths / 10, thousandths % 10)
}
