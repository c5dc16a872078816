//! One run of a scenario.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tollway::Policy;
use tollway_testkit::Random;

use crate::central_store::CentralStore;
use crate::link::Shared;
use crate::network::{Network, Region};
use crate::report::{Report, Tally};
use crate::scenario::{EVENT_SECONDS, Event, SECONDS, Scenario, WINDOW_SECONDS};
use crate::server::{Ended, Server};
use crate::virtual_clock::VirtualClock;

/// How often a node that takes nothing looks whether it should.
const SILENT: Duration = Duration::from_millis(100);

/// How often the units that are leased and not spent are counted.
const SAMPLED_EVERY: Duration = Duration::from_millis(100);

/// Everything that the tasks of a run share.
struct Simulation {
    scenario: Scenario,
    policy: Arc<Policy>,
    started: Instant,
    shared: Arc<Shared>,
    servers: Vec<Server>,
    tally: Mutex<Tally>,
}

/// Runs a scenario on the current runtime, which has one thread and paused time.
pub async fn run(scenario: Scenario, seed: u64) -> Report {
    let started = Instant::now();
    let mut random = Random::new(seed);
    let clock = Arc::new(VirtualClock::new(started, 0));
    let shared = Arc::new(Shared { central: CentralStore::new(clock), network: Network::default() });
    let simulation = Arc::new(Simulation {
        scenario,
        policy: Arc::new(scenario.policy()),
        started,
        shared,
        servers: (0..scenario.servers).map(|server| Server::new(scenario.region(server))).collect(),
        tally: Mutex::default(),
    });
    for number in 0..scenario.servers {
        simulation.start_server(number, number, &mut random);
    }
    let mut tasks = JoinSet::new();
    for node in 0..scenario.nodes {
        tasks.spawn(Arc::clone(&simulation).take_for_ever(node, Random::new(random.bits())));
    }
    tasks.spawn(Arc::clone(&simulation).sample_for_ever());
    let event = tokio::spawn(Arc::clone(&simulation).event(random));
    sleep_until(started + Duration::from_secs(SECONDS)).await;
    tasks.shutdown().await;
    event.await.expect("the event has happened");
    let calls = simulation.shared.central.calls();
    let report = Report::new(scenario, seed, calls, &simulation.tally.lock().unwrap());
    for server in &simulation.servers {
        server.close().await;
    }
    report
}

impl Simulation {
    fn start_server(&self, index: usize, number: usize, random: &mut Random) {
        self.servers[index].start(&self.shared, &self.policy, number, self.started, random);
    }

    /// One node: it takes, on average once in the scenario's gap.
    async fn take_for_ever(self: Arc<Self>, node: usize, mut random: Random) {
        let own = self.scenario.server(node);
        let region = self.scenario.region(own);
        // Nodes are not in step.
        sleep(Duration::from_millis(random.below(1_000))).await;
        loop {
            let Some(gap) = self.scenario.gap(region, self.started.elapsed()) else {
                sleep(SILENT).await;
                continue;
            };
            let mean = u64::try_from(gap.as_millis()).expect("a short time");
            sleep(Duration::from_millis(random.between(mean / 2, mean * 3 / 2))).await;
            let mut ended = self.servers[own].take(&self.policy).await;
            if ended == Ended::NoServer {
                ended = self.servers[(own + 1) % self.servers.len()].take(&self.policy).await;
            }
            self.tally.lock().unwrap().count(self.window(), ended);
        }
    }

    /// What happens, and its end.
    async fn event(self: Arc<Self>, mut random: Random) {
        let network = &self.shared.network;
        let second = |second| sleep_until(self.started + Duration::from_secs(second));
        let cut_off = |cut_off| match self.scenario.event {
            Event::RegionCutOff => network.set_cut_off(Region::First, cut_off),
            Event::StoreAway => {
                network.set_cut_off(Region::First, cut_off);
                network.set_cut_off(Region::Second, cut_off);
            }
            _ => {}
        };
        second(EVENT_SECONDS.0).await;
        cut_off(true);
        if self.scenario.event == Event::ServerKilled {
            self.servers[0].kill();
        }
        second(EVENT_SECONDS.1).await;
        cut_off(false);
        if self.scenario.event == Event::ServerKilled {
            self.start_server(0, self.servers.len(), &mut random);
        }
    }

    /// Compares what the store counts with what was granted.
    async fn sample_for_ever(self: Arc<Self>) {
        loop {
            // Just before a window ends, not just after.
            sleep(SAMPLED_EVERY - Duration::from_millis(1)).await;
            let used = self.shared.central.used(&self.policy);
            self.tally.lock().unwrap().note_used(self.window(), used);
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn window(&self) -> usize {
        usize::try_from(self.started.elapsed().as_secs() / WINDOW_SECONDS).expect("a few windows")
    }
}
