//! Group redis: fifty callers take from six limits per subject in one Redis.

mod cluster;
mod connection;
mod consumers;
mod documented;
mod limitador_commands;
mod pipeline;
mod server;

use std::time::Duration;

use anyhow::Result;
use tollway_testkit::servers::RedisServer;

use super::callers::Stage;
use super::contest::{Part, contest};
use super::ours;
use super::periods::SIX;
use super::round::{Effort, play};
use crate::keys::{Keys, VISITS};
use crate::machine;
use crate::report::Report;

pub(crate) const GROUP: &str = "redis";

const CALLERS: usize = 50;
/// One hot subject, and so many that callers rarely meet.
const SUBJECTS: [u32; 2] = [1, 10_000];
/// Leases help with repeated subjects: this many, each used thousands of times a second.
const LEASED_SUBJECTS: [u32; 2] = [1, 100];

/// Target: Tollway's decisions a second, relative to limitador's.
const WANTED_OF_LIMITADOR: f64 = 3.0;
/// Target: Redis's microseconds for a decision over many subjects, which cannot be batched by subject.
const WANTED_REDIS_MICROS: f64 = 15.0;
/// Target with leases: two thirds of the memory store's decisions a second.
const WANTED_OF_MEMORY: f64 = 0.667;
/// Target: the most commands per decision, without and with leases.
const WANTED_COMMANDS: f64 = 1.0;
const WANTED_COMMANDS_LEASED: f64 = 0.05;

/// Concurrent consumers, and the target relative to the documented commands.
const CONSUMERS: u32 = 1_000;
const WANTED_OF_DOCUMENTED: f64 = 5.0;

/// Commands that run a script, by hash or source.
const SCRIPT: &[&str] = &["evalsha", "eval"];

/// Every take asks Redis. The target holds where concurrent takes can be batched.
fn asking(subjects: u32) -> Vec<Part> {
    let limitador = Part::new("limitador's commands", SCRIPT, play::<limitador_commands::ByHand>);
    let limitador = if subjects == 1 { limitador.per_second(WANTED_OF_LIMITADOR) } else { limitador };
    let incr = Part::new("INCR pipeline, no check", pipeline::SENDS, play::<pipeline::Pipeline>);
    let incr = if subjects == 1 { incr } else { incr.server_micros(WANTED_REDIS_MICROS) };
    vec![
        Part::new("tollway", SCRIPT, play::<ours::Plain>),
        limitador.commands(WANTED_COMMANDS),
        incr,
        Part::new("GET, TTL, INCR in turn", documented::SENDS, play::<documented::Documented>),
    ]
}

/// With leases, most takes do not ask Redis.
fn in_process() -> Vec<Part> {
    vec![
        Part::new("tollway leased", SCRIPT, play::<ours::Leased>),
        Part::new("tollway in memory", SCRIPT, play::<ours::Memory>)
            .per_second(WANTED_OF_MEMORY)
            .commands(WANTED_COMMANDS_LEASED),
    ]
}

/// One row for the group server: a check of one consumer with six documented counters.
pub(crate) fn measure_consumers(quick: bool, report: &mut Report) -> Result<()> {
    let (rounds, round) = if quick { (3, 400) } else { (9, 1_000) };
    let effort = Effort { rounds, warm_up: Duration::from_millis(200), round: Duration::from_millis(round) };
    let server = RedisServer::start();
    let keys = Keys::new(CONSUMERS, VISITS);
    let stage = Stage { url: server.url(), periods: &SIX, callers: CALLERS, keys };
    let parts = [
        Part::new("tollway", SCRIPT, play::<consumers::Consumers>),
        Part::new("GET, TTL, INCR in turn", documented::SENDS, play::<documented::Documented>)
            .per_second(WANTED_OF_DOCUMENTED)
            .commands(WANTED_COMMANDS),
    ];
    contest(&server, &stage, &parts, effort, "six periods of a consumer, 50 callers, 1k consumers", report)
}

pub(crate) fn measure(quick: bool) -> Result<Report> {
    let (rounds, warm_up_ms, round_ms) = if quick { (3, 200, 450) } else { (9, 400, 1_000) };
    let (warm_up, round) = (Duration::from_millis(warm_up_ms), Duration::from_millis(round_ms));
    let effort = Effort { rounds, warm_up, round };
    let mut report = Report::new(GROUP, &["limitador", "redis"]);
    let load = machine::load();
    let server = RedisServer::start();
    notes(&server, load, effort, &mut report);
    let mut play = |subjects: u32, kind: &str, parts: &[Part]| {
        let keys = Keys::new(subjects, VISITS);
        let stage = Stage { url: server.url(), periods: &SIX, callers: CALLERS, keys };
        contest(
            &server,
            &stage,
            parts,
            effort,
            &format!("six limits{kind}, {}", count(subjects)),
            &mut report,
        )
    };
    for subjects in SUBJECTS {
        play(subjects, "", &asking(subjects))?;
    }
    for subjects in LEASED_SUBJECTS {
        play(subjects, " leased", &in_process())?;
    }
    cluster::measure(&server, effort, &mut report)?;
    Ok(report)
}

fn count(subjects: u32) -> String {
    match subjects {
        1 => "1 subject".to_owned(),
        1_000.. => format!("{}k subjects", subjects / 1_000),
        _ => format!("{subjects} subjects"),
    }
}

fn notes(server: &RedisServer, load: Option<f64>, effort: Effort, report: &mut Report) {
    let version = server::info(server, "server", "redis_version").unwrap_or_default();
    let load = load.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    let Effort { rounds, warm_up, round } = effort;
    report.note(format!(
        "Redis {version} on the same machine, without persistence. Load of the machine before the run: {load}. Callers \
         and Redis share its cores: what one process saves, the other can use."
    ));
    report.note(format!(
        "{CALLERS} callers are tasks on two threads. {rounds} rounds of {} ms after {} ms of warm-up, all in turn, each \
         on an empty Redis; of each figure the median round counts.",
        round.as_millis(),
        warm_up.as_millis()
    ));
    report.note(
        "`us CPU` is processor time for a decision, of this process and of Redis; `us CPU of server` is that of Redis \
         alone, which has one thread for all clients. `commands` are those that clients sent, as Redis counts them, \
         for a decision. `us p50` and `us p99` are what a caller waits."
            .to_owned(),
    );
    report.note(
        "After each round on 1 subject the meters are read: ours show every grant, or more while leases are out."
            .to_owned(),
    );
}
