//! A worker process: calls the vendor as fast as the limit allows, until its parent ends.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tollway::core::WhenStoreFails;
use tollway::core::bounds::WAIT_MAX;
use tollway::{BuildError, Limiter, Policy, StoreUrl};

use super::http::{Head, RETRY_AFTER, WORKER};
use super::quota::Quota;
use crate::failure::{Exit, Failure};

/// Timeout for a call to the vendor.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most failed calls in a row before a worker exits.
const FAILURES_MAX: u32 = 10;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Calls until its standard input closes. With a store it takes a permit before each call.
pub(super) fn work(
    number: usize,
    vendor: SocketAddr,
    quota: Quota,
    state: Option<&Path>,
) -> Result<Exit, Failure> {
    end_with_standard_input()?;
    let limiter = state.map(|path| limiter(path, quota)).transpose()?;
    let mut failures = 0;
    while failures < FAILURES_MAX {
        if let Some(limiter) = &limiter {
            // One request to the store: if the minute is used up, the take is booked ahead and this sleeps until then.
            let mut permit = limiter.take("vendor").wait()?;
            // Last check before the call: is the permit still valid for its minute?
            permit.begin_blocking()?;
        }
        match call(vendor, number) {
            Ok(retry_after) => {
                failures = 0;
                thread::sleep(retry_after);
            }
            Err(_) => {
                failures += 1;
                thread::sleep(PAUSE_AFTER_FAILURE);
            }
        }
    }
    Err(Failure::new(Exit::FAILED, format!("worker {number} cannot reach the vendor at {vendor}")))
}

/// The limit, shared with all workers through a file.
fn limiter(state: &Path, quota: Quota) -> Result<Limiter, Failure> {
    let policy = Policy::new("vendor", [quota.limit_text().as_str()])
        .and_then(|policy| policy.with_max_wait(WAIT_MAX))
        .map_err(BuildError::from)?
        .with_edge(quota.edge())
        .with_when_store_fails(WhenStoreFails::Closed);
    let builder = Limiter::builder().store_at(&StoreUrl::File(state.to_owned()))?;
    Ok(builder.with_policy(policy)?.build())
}

/// One call. Returns the vendor's `Retry-After`.
fn call(vendor: SocketAddr, number: usize) -> io::Result<Duration> {
    let mut stream = TcpStream::connect_timeout(&vendor, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request =
        format!("GET /convert HTTP/1.1\r\nHost: {vendor}\r\n{WORKER}: {number}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let head = Head::read(BufReader::new(&stream))?;
    match head.word(1) {
        "200" => Ok(Duration::ZERO),
        "429" => Ok(Duration::from_secs(head.number(RETRY_AFTER).unwrap_or(1))),
        status => Err(io::Error::other(format!("the vendor answered {status:?}"))),
    }
}

/// The parent holds the other end of standard input, so it closes when the parent ends for any reason.
fn end_with_standard_input() -> Result<(), Failure> {
    let watch = || {
        let mut byte = [0];
        while matches!(io::stdin().read(&mut byte), Ok(1..)) {}
        std::process::exit(0);
    };
    let started = thread::Builder::new().name("standard input".to_owned()).spawn(watch);
    started
        .map(drop)
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot start a thread in a worker: {error}")))
}
