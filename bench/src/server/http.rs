//! HTTP: a POST with a JSON body, for a random key of many.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result};
use serde_json::Value;

use super::KEYS;
use super::check::{Bucket, Judge, Limit};
use super::contest::{Effort, Part, contest};
use super::entrants::Entrants;
use super::figures::Figures;
use super::load::wrk::Posts;
use crate::report::BenchReport;

/// Target: Tollway's processor time, relative to throttlecrab's.
const WANTED_OF_THROTTLECRAB: f64 = 0.9;

/// The key of a request, as wrk fills it in.
const KEY: &str = "user:%08d";
const ONE_OF_THE_KEYS: &str = "user:00000007";

/// Returns Tollway's result.
pub(super) fn measure(entrants: &Entrants, effort: Effort, report: &mut BenchReport) -> Result<Figures> {
    let (ours, theirs) = (&entrants.ours, &entrants.throttlecrab);
    let mut judges = [
        Judge::new("tollway", |limit, key| granted(ours.http, OURS, &our_body(limit, key), "granted")),
        Judge::new("throttlecrab", |limit, key| {
            granted(theirs.http, THEIRS, &their_body(limit, key), "allowed")
        }),
    ];
    judges.iter_mut().try_for_each(|judge| judge.before("http"))?;
    let load = |port, path, body: String| Posts::new(url(port, path), &body, KEYS).map(Box::new);
    let parts = [
        Part {
            name: "tollway",
            pid: ours.pid(),
            load: load(ours.http, OURS, our_body(Limit::Plenty, KEY))?,
            wanted: None,
        },
        Part {
            name: "throttlecrab-server",
            pid: theirs.pid(),
            load: load(theirs.http, THEIRS, their_body(Limit::Plenty, KEY))?,
            wanted: Some(WANTED_OF_THROTTLECRAB),
        },
    ];
    let figures = contest("HTTP, 64 connections", &parts, effort, report)?;
    judges.iter_mut().try_for_each(|judge| judge.after(ONE_OF_THE_KEYS))?;
    Ok(figures)
}

pub(super) const OURS: &str = "/v1/take";
pub(super) const THEIRS: &str = "/throttle";

pub(super) fn url(port: u16, path: &str) -> String {
    format!("http://{}:{port}{path}", Ipv4Addr::LOCALHOST)
}

pub(super) fn our_body(limit: Limit, key: &str) -> String {
    format!(r#"{{"policy":"{}","subject":"{key}"}}"#, limit.name())
}

pub(super) fn their_body(limit: Limit, key: &str) -> String {
    let Bucket { burst, amount, period_seconds } = limit.bucket();
    format!(r#"{{"key":"{key}","max_burst":{burst},"count_per_period":{amount},"period":{period_seconds}}}"#)
}

/// A field of the response to one request.
fn granted(port: u16, path: &str, body: &str, name: &str) -> Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let head = "host: bench\r\nconnection: close\r\ncontent-type: application/json\r\n";
    write!(stream, "POST {path} HTTP/1.1\r\n{head}content-length: {}\r\n\r\n{body}", body.len())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let answer = said.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str::<Value>(body).ok());
    answer.and_then(|answer| answer.get(name)?.as_bool()).with_context(|| format!("it said:\n{said}"))
}
