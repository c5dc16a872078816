//! The Redis protocol: `CL.THROTTLE` of ours, `THROTTLE` of throttlecrab, and `INCR` of Redis itself, which decides nothing.

use anyhow::{Context, Result};
use redis::{Client, cmd};
use tollway_testkit::servers::RedisServer;

use super::KEYS;
use super::check::{Bucket, Judge, Limit};
use super::contest::{Effort, Part, contest};
use super::entrants::Entrants;
use super::load::redis_benchmark::{Commands, KEY};
use crate::report::BenchReport;

/// Target: Tollway's processor time, relative to throttlecrab's, without pipelining.
const WANTED_OF_THROTTLECRAB: f64 = 0.8;
/// Target: Tollway's processor time, relative to an INCR of Redis, with pipelining.
const WANTED_OF_INCR: f64 = 2.5;

/// Commands per batch: with one, system calls dominate the cost.
const PIPELINED: [usize; 2] = [1, 16];

const ONE_OF_THE_KEYS: &str = "user:000000000007";

pub(super) fn measure(entrants: &Entrants, effort: Effort, report: &mut BenchReport) -> Result<()> {
    let Entrants { ours, throttlecrab, redis, .. } = entrants;
    let redis_pid = pid_of(redis)?;
    let mut judges = [
        Judge::new("tollway", |limit, key| Ok(ask(ours.resp, &our_words(limit, key))? == 0)),
        Judge::new("throttlecrab", |limit, key| Ok(ask(throttlecrab.resp, &their_words(limit, key))? == 1)),
    ];
    judges.iter_mut().try_for_each(|judge| judge.before("resp"))?;
    for pipelined in PIPELINED {
        let part = |name, pid, port, words: &str, wanted| {
            let load = Box::new(Commands::new(port, words, KEYS, pipelined));
            Part { name, pid, load, wanted }
        };
        let (of_throttlecrab, of_incr) =
            if pipelined == 1 { (Some(WANTED_OF_THROTTLECRAB), None) } else { (None, Some(WANTED_OF_INCR)) };
        let theirs = their_words(Limit::Plenty, KEY);
        let parts = [
            part("tollway", ours.pid(), ours.resp, &our_words(Limit::Plenty, KEY), None),
            part("throttlecrab-server", throttlecrab.pid(), throttlecrab.resp, &theirs, of_throttlecrab),
            part("INCR of redis-server", redis_pid, redis.port(), &format!("INCR {KEY}"), of_incr),
        ];
        contest(&format!("RESP, 50 connections x {pipelined}"), &parts, effort, report)?;
    }
    judges.iter_mut().try_for_each(|judge| judge.after(ONE_OF_THE_KEYS))
}

pub(super) fn pid_of(redis: &RedisServer) -> Result<u32> {
    fact_of(&redis.command(&["INFO", "server"]), "process_id").context("Redis knows its process")
}

/// The burst is in addition to one request.
pub(super) fn our_words(limit: Limit, key: &str) -> String {
    let Bucket { burst, amount, period_seconds } = limit.bucket();
    format!("CL.THROTTLE {key} {} {amount} {period_seconds}", burst - 1)
}

pub(super) fn their_words(limit: Limit, key: &str) -> String {
    let Bucket { burst, amount, period_seconds } = limit.bucket();
    format!("THROTTLE {key} {burst} {amount} {period_seconds}")
}

/// The first number of the response: Tollway returns whether it was limited, throttlecrab whether it was allowed.
fn ask(port: u16, words: &str) -> Result<i64> {
    let mut connection = Client::open(("127.0.0.1", port))?.get_connection()?;
    let mut words = words.split(' ');
    let mut command = cmd(words.next().context("a command has a name")?);
    words.for_each(|word| {
        command.arg(word);
    });
    let numbers: Vec<i64> = command.query(&mut connection)?;
    numbers.first().copied().context("an answer without numbers")
}

/// One field of a section of `INFO`.
pub(super) fn fact_of<T: std::str::FromStr>(info: &str, fact: &str) -> Option<T> {
    info.lines().find_map(|line| line.strip_prefix(fact)?.strip_prefix(':')?.trim().parse().ok())
}
