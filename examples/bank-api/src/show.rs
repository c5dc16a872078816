//! Example calls for every header and message, with their responses. A test runs all of them.

use std::io::{self, Write};
use std::net::SocketAddr;

/// A call: title, curl arguments, and expected parts of the response.
type Shown = (&'static str, &'static str, &'static [&'static str]);

/// The order matters: some calls use up limits for later ones.
const CALLS: [Shown; 13] = [
    (
        "headers show the shortest limited period",
        "-H 'Authorization: Bearer anna-token' 'URL/accounts?call=[1-3]'",
        &[
            "HTTP/1.1 200",
            "x-rate-limit-limit: 100",
            "x-rate-limit-remaining: 97",
            "x-rate-limit-reset:",
            "ratelimit:",
        ],
    ),
    (
        "two records add up",
        "-H 'Authorization: Bearer carla-token' URL/accounts",
        &["HTTP/1.1 200", "x-rate-limit-limit: 150", "x-rate-limit-remaining: 149"],
    ),
    (
        "no record and no default: unlimited",
        "-H 'Authorization: Bearer dora-token' URL/accounts",
        &["HTTP/1.1 200"],
    ),
    (
        "over the limit per second",
        "-H 'Authorization: Bearer second-token' 'URL/accounts?call=[1-9]'",
        &["HTTP/1.1 429", "We only allow 1 requests per second for this Consumer.", "retry-after: 1"],
    ),
    (
        "over the limit per minute",
        "-H 'Authorization: Bearer minute-token' 'URL/accounts?call=[1-2]'",
        &[
            "HTTP/1.1 429",
            "We only allow 1 requests per minute for this Consumer.",
            "x-rate-limit-remaining: 0",
        ],
    ),
    (
        "over the limit per hour",
        "-H 'Authorization: Bearer hour-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per hour for this Consumer."],
    ),
    (
        "over the limit per day",
        "-H 'Authorization: Bearer day-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per day for this Consumer."],
    ),
    (
        "over the limit per week",
        "-H 'Authorization: Bearer week-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per week for this Consumer."],
    ),
    (
        "over the limit per month",
        "-H 'Authorization: DirectLogin token=\"month-token\"' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per month for this Consumer."],
    ),
    ("without credentials: the hourly limit", "URL/branches", &["HTTP/1.1 200", "x-rate-limit-limit: 2"]),
    (
        "over the limit without credentials",
        "'URL/branches?call=[2-3]'",
        &["HTTP/1.1 429", "We only allow 2 requests per hour for anonymous access."],
    ),
    (
        "a blocked consumer",
        "-H 'Authorization: Bearer bert-token' URL/accounts",
        &["HTTP/1.1 403", "this consumer is blocked"],
    ),
    (
        "an unknown token",
        "-H 'Authorization: Bearer guessed' URL/accounts",
        &["HTTP/1.1 401", "www-authenticate: Bearer", "the token in the header authorization is not known"],
    ),
];

/// Prints the calls for a server at this address.
pub(crate) fn print(address: SocketAddr) -> io::Result<()> {
    let url = format!("http://{address}");
    let mut out = io::stdout().lock();
    writeln!(out, "a bank's API at {url}; try, in this order:")?;
    for (shows, words, answers) in CALLS {
        writeln!(out, "\n# {shows}\ncurl -s -i {}", words.replace("URL", &url))?;
        answers.iter().try_for_each(|answer| writeln!(out, "#   {answer}"))?;
    }
    writeln!(out, "\nready")?;
    out.flush()
}
