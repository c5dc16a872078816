//! A Cluster beside one server: what a decision costs when its calls are spread over nodes.

use anyhow::{Context, Result};
use tollway_testkit::servers::{RedisCluster, RedisServer};

use super::{CALLERS, SCRIPT, ours};
use crate::keys::{Keys, VISITS};
use crate::report::{Report, Wanted};
use crate::stores::callers::Stage;
use crate::stores::figures::{Figures, Targets};
use crate::stores::periods::{ONE, Period, SIX};
use crate::stores::round::{Effort, Server, play};

const NODES: usize = 3;

/// So many that callers rarely meet.
const SUBJECTS: u32 = 10_000;

/// Target: the servers' time for a decision, relative to one server with the callers that a node has.
const WANTED_OF_FLOOR: f64 = 1.3;

/// One case for each number of limits: three nodes, one server, and the floor: one server and so many callers as a node has,
/// because a node cannot answer more calls together than it is sent.
pub(super) fn measure(one: &RedisServer, effort: Effort, report: &mut Report) -> Result<()> {
    let cluster = RedisCluster::start(NODES);
    let url = format!("redis+cluster://{}", cluster.nodes()[0].addr());
    let cases: [(&str, &'static [Period]); 2] = [("one limit", &ONE), ("six limits", &SIX)];
    for (limits, periods) in cases {
        let keys = Keys::new(SUBJECTS, VISITS);
        let stage = |url: &str, callers| Stage { url: url.to_owned(), periods, callers, keys: keys.clone() };
        let case = format!("{limits}, {}k subjects, a Cluster of {NODES}", SUBJECTS / 1_000);
        let sides: [(&dyn Server, Stage, &str); 3] = [
            (&cluster, stage(&url, CALLERS), "the Cluster"),
            (one, stage(&one.url(), CALLERS), "tollway, one server"),
            (one, stage(&one.url(), CALLERS / NODES), "tollway, one server, a third of the callers"),
        ];
        let mut figures = vec![Vec::new(); sides.len()];
        for round in 1..=effort.rounds {
            for ((server, stage, name), figures) in sides.iter().zip(&mut figures) {
                eprintln!("{case}, round {round}: {name}");
                figures.push(play::<ours::Plain>(*server, stage, SCRIPT, effort).context(*name)?);
            }
        }
        let medians: Vec<Figures> = figures.iter().map(|rounds| Figures::median(rounds)).collect();
        let floor = Targets { server: Some(Wanted::Ratio(WANTED_OF_FLOOR)), ..Targets::default() };
        medians[0].compare(&medians[1], &case, sides[1].2, Targets::default(), report);
        medians[0].compare(&medians[2], &case, sides[2].2, floor, report);
    }
    Ok(())
}
