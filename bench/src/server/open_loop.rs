//! Latency and processor time at equal, realistic rates: requests go out on a schedule (an open loop), and the servers have
//! time between them. The other rows load until nothing more fits.

use std::time::Duration;

use anyhow::{Context, Result};

use super::KEYS;
use super::check::Limit;
use super::entrants::Entrants;
use super::load::h2load::Calls;
use super::load::resp_schedule::{KEY, Schedule};
use super::load::{OpenLoad, Timed};
use super::pinning::Pinned;
use super::{grpc, http, resp};
use crate::processor::precise_time_of;
use crate::report::{BenchReport, Better, Row, Wanted};
use crate::rounds::median;

/// Connections, and requests a second over all of them.
const RATES: [(usize, u64); 3] = [(16, 4_000), (64, 16_000), (64, 30_000)];

/// Calls in flight per gRPC connection.
const STREAMS: usize = 8;

/// Targets for latency, relative to every rival.
const WANTED_LATENCY: f64 = 1.05;
/// Targets for processor time.
const WANTED_CPU_HTTP: f64 = 0.8;
const WANTED_CPU_GRPC: f64 = 0.65;
const WANTED_CPU_RESP: f64 = 0.8;
const WANTED_CPU_OF_REDIS: f64 = 1.0;

/// The rate in the HTTP and gRPC rows is that of one body, since the load generator repeats it.
const ONE_KEY: &str = "user:00000007";

/// A participant.
struct Part {
    name: &'static str,
    pid: u32,
    load: Box<dyn OpenLoad>,
    wanted_cpu: Option<f64>,
}

/// Per request.
#[derive(Clone, Copy)]
struct Figures {
    p50: f64,
    p99: f64,
    p999: f64,
    cpu: f64,
}

pub(super) fn measure(entrants: &Entrants, quick: bool, report: &mut BenchReport) -> Result<()> {
    let (rounds, round) =
        if quick { (3, Duration::from_millis(300)) } else { (9, Duration::from_millis(1_500)) };
    let Entrants { ours, limitador, throttlecrab, redis } = entrants;
    let redis_pid = resp::pid_of(redis)?;
    let _pinned = Pinned::apart(vec![ours.pid(), limitador.pid(), throttlecrab.pid(), redis_pid])?;
    report.note(format!(
        "`open loop`: {rounds} alternating rounds of {} ms at the given rate, the servers pinned to one core and the load \
         generator to the other; of each figure the median round counts. h2load sends HTTP and gRPC, always for one key; \
         a small client of this bench sends RESP, for 100,000 keys, and counts latency from the time when the request was due.",
        round.as_millis()
    ));
    let rates = if quick { &RATES[..1] } else { &RATES[..] };
    for &(connections, per_second) in rates {
        let shape = format!("{} a second, {connections} connections", thousands(per_second));
        contest(
            &format!("open loop HTTP, {shape}"),
            &http_parts(entrants, connections, per_second)?,
            rounds,
            round,
            report,
        )?;
        contest(
            &format!("open loop gRPC, {shape}"),
            &grpc_parts(entrants, connections, per_second)?,
            rounds,
            round,
            report,
        )?;
        contest(
            &format!("open loop RESP, {shape}"),
            &resp_parts(entrants, redis_pid, connections, per_second),
            rounds,
            round,
            report,
        )?;
    }
    Ok(())
}

fn http_parts(entrants: &Entrants, connections: usize, per_second: u64) -> Result<[Part; 2]> {
    let each = per_second / connections as u64;
    let part = |name, pid, url, body: String, wanted_cpu| -> Result<Part> {
        Ok(Part { name, pid, load: Box::new(Calls::posts(url, &body, connections, each)?), wanted_cpu })
    };
    let Entrants { ours, throttlecrab, .. } = entrants;
    let (our_url, their_url) = (http::url(ours.http, http::OURS), http::url(throttlecrab.http, http::THEIRS));
    Ok([
        part("tollway", ours.pid(), our_url, http::our_body(Limit::Plenty, ONE_KEY), None)?,
        part(
            "throttlecrab-server",
            throttlecrab.pid(),
            their_url,
            http::their_body(Limit::Plenty, ONE_KEY),
            Some(WANTED_CPU_HTTP),
        )?,
    ])
}

fn grpc_parts(entrants: &Entrants, connections: usize, per_second: u64) -> Result<[Part; 2]> {
    let each = per_second / connections as u64;
    let message = grpc::plenty_message();
    let part = |name, pid, port, wanted_cpu| -> Result<Part> {
        let calls = Calls::grpc(http::url(port, grpc::ENVOY), &message, connections, STREAMS)?;
        Ok(Part { name, pid, load: Box::new(calls.at_rate(each)), wanted_cpu })
    };
    let Entrants { ours, limitador, .. } = entrants;
    Ok([
        part("tollway", ours.pid(), ours.grpc, None)?,
        part("limitador behind tonic", limitador.pid(), limitador.grpc, Some(WANTED_CPU_GRPC))?,
    ])
}

fn resp_parts(entrants: &Entrants, redis_pid: u32, connections: usize, per_second: u64) -> [Part; 3] {
    let part = |name, pid, port, words: &str, wanted_cpu| {
        let load = Box::new(Schedule::new(port, words, KEYS, connections, per_second));
        Part { name, pid, load, wanted_cpu }
    };
    let Entrants { ours, throttlecrab, redis, .. } = entrants;
    let (our_words, their_words) =
        (resp::our_words(Limit::Plenty, KEY), resp::their_words(Limit::Plenty, KEY));
    let incr = format!("INCR {KEY}");
    [
        part("tollway", ours.pid(), ours.resp, &our_words, None),
        part(
            "throttlecrab-server",
            throttlecrab.pid(),
            throttlecrab.resp,
            &their_words,
            Some(WANTED_CPU_RESP),
        ),
        part("INCR of redis-server", redis_pid, redis.port(), &incr, Some(WANTED_CPU_OF_REDIS)),
    ]
}

fn contest(
    case: &str,
    parts: &[Part],
    rounds: usize,
    round: Duration,
    report: &mut BenchReport,
) -> Result<()> {
    let mut figures = vec![Vec::new(); parts.len()];
    for number in 0..=rounds {
        let mut order: Vec<_> = parts.iter().zip(&mut figures).collect();
        if number % 2 == 0 {
            order.reverse();
        }
        for (part, figures) in order {
            let played = play(part, round).with_context(|| format!("{case}, {}", part.name))?;
            eprintln!(
                "{case}, round {number}: {}, p50 {} p99 {} us, {:.2} us CPU",
                part.name, played.p50, played.p99, played.cpu
            );
            // The first round warms up.
            if number > 0 {
                figures.push(played);
            }
        }
    }
    let medians: Vec<Figures> = figures.iter().map(|rounds| Figures::median(rounds)).collect();
    for (part, theirs) in parts.iter().zip(&medians).skip(1) {
        medians[0].compare(theirs, case, part, report);
    }
    Ok(())
}

fn play(part: &Part, lasts: Duration) -> Result<Figures> {
    let before = precise_time_of(part.pid)?;
    let timed = part.load.run(lasts)?;
    let cpu = precise_time_of(part.pid)?.saturating_sub(before);
    Ok(Figures::of(&timed, cpu))
}

impl Figures {
    fn of(timed: &Timed, cpu: Duration) -> Self {
        let at = |share: f64| timed.percentile(share) as f64;
        Self {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            cpu: cpu.as_secs_f64() * 1e6 / timed.requests() as f64,
        }
    }

    fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure));
        Self {
            p50: of(|one| one.p50),
            p99: of(|one| one.p99),
            p999: of(|one| one.p999),
            cpu: of(|one| one.cpu),
        }
    }

    fn compare(&self, theirs: &Self, case: &str, rival: &Part, report: &mut BenchReport) {
        let mut row = |unit, wanted: Option<f64>, figure: fn(&Self) -> f64| {
            let row = Row::new(case, rival.name, unit, Better::Lower, figure(self), figure(theirs));
            report.push(row.wanted(wanted.map(Wanted::Ratio)));
        };
        row("us p50", Some(WANTED_LATENCY), |figures| figures.p50);
        row("us p99", Some(WANTED_LATENCY), |figures| figures.p99);
        row("us p99.9", None, |figures| figures.p999);
        row("us CPU of server", rival.wanted_cpu, |figures| figures.cpu);
    }
}

fn thousands(number: u64) -> String {
    format!("{},{:03}", number / 1_000, number % 1_000)
}
