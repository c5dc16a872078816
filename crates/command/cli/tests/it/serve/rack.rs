//! B1, B2: a server for each rack leases from one Redis on behalf of many clients. Few of their takes reach Redis, and they
//! get the whole limit and never more, also when a server is killed.
#![allow(clippy::print_stdout, reason = "the counts are the result")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollway_testkit::servers::RedisServer;

use super::serving::{LONG, Serving, wait_until};
use crate::home::Home;

const SERVERS: usize = 3;

/// What each client could take, if the limit were divided.
const UNITS_PER_CLIENT: u64 = 12;

/// How long a client waits after each take.
const PAUSE: Duration = Duration::from_millis(300);

/// Longer than a lease, its return and a denial that is repeated from memory.
const QUIET: Duration = Duration::from_secs(4);

/// Ends clients of a test that failed.
const CLIENTS_END_AFTER: Duration = Duration::from_secs(120);

/// `./test --full` has more. After the death of a server, one of them has two thirds of them, and takes at most 1,000 from an
/// address.
fn clients() -> usize {
    std::env::var("TOLLWAY_CLIENTS").map_or(300, |clients| clients.parse().unwrap())
}

#[derive(Default)]
struct Counts {
    granted: AtomicU64,
    /// Requests that were not answered: their server was killed.
    unanswered: AtomicU64,
    stop: AtomicBool,
}

/// What is known when no client gets anything any more.
struct Outcome {
    limit: u64,
    granted: u64,
    unanswered: u64,
    /// What Redis counts as used.
    used: u64,
    /// How many scripts Redis ran until most of the limit was granted: each decides takes, or gives back the rest of a lease.
    calls: u64,
    /// How many takes were granted until then.
    granted_by_calls: u64,
}

#[test]
fn servers_that_lease_share_a_limit_exactly_though_one_is_killed() {
    let asked = clients_use_up_a_limit("off");
    assert!(asked.granted + asked.unanswered >= asked.limit, "without leases, nothing but answers is lost");
    let leased = clients_use_up_a_limit("on");
    assert!(leased.calls < asked.calls, "{} calls with leases, {} without", leased.calls, asked.calls);
    assert!(leased.calls * 5 <= leased.granted_by_calls, "{} calls for few takes", leased.calls);
}

/// Clients take from three servers until the limit is used up. In the middle, one server is killed, and its clients ask the
/// next one.
fn clients_use_up_a_limit(lease: &str) -> Outcome {
    let redis = RedisServer::start();
    let limit = clients() as u64 * UNITS_PER_CLIENT;
    // No window ends meanwhile.
    let home = Home::with_config(&format!(
        "[store]\nurl = \"{}\"\n[policies.api]\nlimits = [\"{limit} requests / day from first call\"]\n\
         lease = \"{lease}\"\nwhen_store_fails = \"closed\"\n",
        redis.url()
    ));
    let start = || Serving::start(&home, &["--listen", "127.0.0.1:0"]);
    let mut servers: Vec<Serving> = (0..SERVERS).map(|_| start()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address("decisions")).collect();
    let counts = Counts::default();
    let (calls, granted_by_calls) = std::thread::scope(|scope| {
        for client in 0..clients() {
            let (addresses, counts) = (&addresses, &counts);
            scope.spawn(move || take_for_ever(addresses, client % SERVERS, counts));
        }
        let granted = || counts.granted.load(Ordering::Relaxed);
        wait_until("half of the limit is granted", || granted() >= limit / 2);
        drop(servers.remove(0));
        wait_until("most of the limit is granted", || granted() >= limit * 8 / 10);
        let calls = (scripts_run(&redis), granted());
        let mut before = 0;
        while granted() != std::mem::replace(&mut before, granted()) {
            std::thread::sleep(QUIET);
        }
        counts.stop.store(true, Ordering::Relaxed);
        calls
    });
    let (granted, unanswered) = (counts.granted.into_inner(), counts.unanswered.into_inner());
    let outcome = Outcome { limit, granted, unanswered, used: used(&home), calls, granted_by_calls };
    println!(
        "lease = {lease}: {calls} calls to Redis for the first {granted_by_calls} grants to {} clients; \
         {granted} of {limit} granted in all, {unanswered} requests not answered",
        clients()
    );
    assert!(granted <= limit && outcome.used == limit, "{granted} granted, {} used of {limit}", outcome.used);
    // The killed server had one lease, which is at most a tenth of the limit.
    assert!(limit - granted <= limit / 10 + unanswered, "{granted} of {limit} granted");
    outcome
}

/// A client with a list of servers: it stays with one that answers.
fn take_for_ever(addresses: &[String], first: usize, counts: &Counts) {
    let begun = Instant::now();
    let mut place = first;
    let mut stream = None;
    while !counts.stop.load(Ordering::Relaxed) && begun.elapsed() < CLIENTS_END_AFTER {
        let connected =
            stream.take().or_else(|| TcpStream::connect(&addresses[place]).ok().map(BufReader::new));
        let Some(mut connection) = connected else {
            place = (place + 1) % addresses.len();
            continue;
        };
        match take(&mut connection) {
            Some(status) => {
                counts.granted.fetch_add(u64::from(status == 200), Ordering::Relaxed);
                stream = Some(connection);
            }
            None => {
                counts.unanswered.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The status of one take. None if the connection ends.
fn take(connection: &mut BufReader<TcpStream>) -> Option<u16> {
    const BODY: &str = "{\"policy\":\"api\"}";
    connection.get_ref().set_read_timeout(Some(LONG)).unwrap();
    let length = BODY.len();
    let request = format!("POST /v1/take HTTP/1.1\r\nhost: rack\r\ncontent-length: {length}\r\n\r\n{BODY}");
    connection.get_mut().write_all(request.as_bytes()).ok()?;
    let mut line = || {
        let mut line = String::new();
        connection.read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line)
    };
    let status = super::status(&line()?);
    let mut length = 0;
    loop {
        let header = line()?.to_lowercase();
        match header.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    connection.read_exact(&mut vec![0; length]).ok()?;
    Some(status)
}

/// What the command shows.
fn used(home: &Home) -> u64 {
    let (_, usage, said) = home.run(&["usage", "api", "--json"]);
    let usage: serde_json::Value = serde_json::from_str(&usage).expect(&said);
    usage["policies"][0]["limits"][0]["used"].as_u64().unwrap()
}

fn scripts_run(redis: &RedisServer) -> u64 {
    let figures = redis.command(&["INFO", "commandstats"]);
    let lines = figures.lines().filter_map(|line| line.trim_end().split_once(":calls="));
    let scripts = lines.filter(|(command, _)| matches!(*command, "cmdstat_evalsha" | "cmdstat_eval"));
    scripts.map(|(_, figures)| figures.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}
