//! B1, B2, G7: thousands of processes on one store, with the leases and the fallback that run in production.
//!
//! `TOLLWAY_NODES=10000 cargo test --release -p tollway-fleet` simulates as many as `./test --full` does.

use tollway_core::WhenStoreFails;
use tollway_fleet::{Event, Report, Scenario, all, run, table};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// Fewer than 10,000 unless the environment says otherwise: these tests are not optimised.
fn nodes() -> usize {
    std::env::var("TOLLWAY_NODES").map_or(400, |nodes| nodes.parse().unwrap())
}

fn simulated(scenario: Scenario, seed: u64) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(run(scenario, seed))
}

/// A server for each fifty nodes.
fn racks() -> Scenario {
    Scenario { nodes: nodes(), servers: nodes() / 50, ..Scenario::default() }
}

/// Nothing is granted beyond a limit, whatever happens, but by processes that must decide without their store.
#[test]
fn no_window_exceeds_the_limit() {
    for seed in SEEDS {
        let reports: Vec<Report> =
            all(nodes()).into_iter().map(|scenario| simulated(scenario, seed)).collect();
        println!("seed {seed}\n{}", table(&reports));
        for report in &reports {
            let scenario = &report.scenario;
            assert!(!scenario.is_exact() || report.over == 0, "{report:?}");
        }
    }
}

/// The same seed gives the same run, to the last unit.
#[test]
fn a_seed_gives_one_result() {
    let scenario =
        Scenario { event: Event::RegionCutOff, when_store_fails: WhenStoreFails::Local, ..racks() };
    let said = |seed| format!("{:?}", simulated(scenario, seed));
    assert_eq!(said(7), said(7));
    assert_ne!(said(7), said(8));
}

/// B2: a lease holds a second of demand. For one take a second that is one unit, so each take is still a call; for the fifty of
/// a rack it saves nine calls of ten and more.
#[test]
fn leases_save_calls_for_a_server_and_none_for_a_node_alone() {
    let calls = |scenario: Scenario| simulated(scenario, 1).calls;
    let with_and_without = |scenario: Scenario| {
        (calls(Scenario { lease: true, ..scenario }), calls(Scenario { lease: false, ..scenario }))
    };
    let (leased, asked) = with_and_without(Scenario { servers: nodes(), ..racks() });
    assert!(leased * 100 >= asked * 95, "{leased} calls with leases, {asked} without");
    let (leased, asked) = with_and_without(racks());
    assert!(leased * 10 <= asked, "{leased} calls with leases, {asked} without");
}

/// B2: what one half of the nodes has leased does not keep the other half waiting: the limit is used while demand moves there
/// and back, and while a server is gone with its leases.
#[test]
fn the_limit_is_used_while_demand_moves_and_servers_die() {
    for event in [Event::Nothing, Event::DemandMoves, Event::ServerKilled] {
        let report = simulated(Scenario { event, ..racks() }, 1);
        assert!(report.used_min() >= 950 && report.failed * 200 <= report.takes, "{report:?}");
        // No more than a second of demand, of the nine that a window has.
        assert!(report.held_max <= report.scenario.limit() / 4, "{report:?}");
    }
}

/// G7, C7: processes that were cut off from the store are as before a window after they are back, in both modes.
#[test]
fn a_region_that_is_back_shares_the_limit_again() {
    for when_store_fails in [WhenStoreFails::Closed, WhenStoreFails::Local] {
        for event in [Event::RegionCutOff, Event::StoreAway] {
            let report = simulated(Scenario { event, when_store_fails, ..racks() }, 1);
            let (last, limit) = (*report.granted.last().unwrap(), report.scenario.limit());
            assert!(last <= limit && last * 100 >= limit * 95, "{report:?}");
            assert_eq!(report.degraded > 0, when_store_fails == WhenStoreFails::Local, "{report:?}");
            assert_eq!(report.failed > 0, when_store_fails == WhenStoreFails::Closed, "{report:?}");
        }
    }
}

/// G7: not exact, and bounded. Without a store, a process keeps to its part of what was left when it was last answered. Half of
/// the processes have at most half of the limit, in each of the two windows of the outage, and the others may use all of it. If
/// no process has a store, they exceed it only by what was taken after each was answered.
#[test]
fn what_processes_grant_without_a_store_is_bounded() {
    for seed in SEEDS {
        for (event, part) in [(Event::RegionCutOff, 1), (Event::StoreAway, 10)] {
            let scenario = Scenario { event, when_store_fails: WhenStoreFails::Local, ..racks() };
            let report = simulated(scenario, seed);
            assert!(report.over <= scenario.limit() / part, "{report:?}");
        }
    }
}
