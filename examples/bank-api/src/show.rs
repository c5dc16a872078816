//! The calls that show every header and message, and what each is answered. A test makes all of them.

use std::io::{self, Write};
use std::net::SocketAddr;

/// A call: what it shows, what curl is told, and what is in the answer.
type Shown = (&'static str, &'static str, &'static [&'static str]);

/// In this order: some use up what others have left.
const CALLS: [Shown; 13] = [
    (
        "what is left, of the shortest period that is limited",
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
        "two records count together",
        "-H 'Authorization: Bearer carla-token' URL/accounts",
        &["HTTP/1.1 200", "x-rate-limit-limit: 150", "x-rate-limit-remaining: 149"],
    ),
    (
        "no record and no default: no limit",
        "-H 'Authorization: Bearer dora-token' URL/accounts",
        &["HTTP/1.1 200"],
    ),
    (
        "too many in a second",
        "-H 'Authorization: Bearer second-token' 'URL/accounts?call=[1-9]'",
        &["HTTP/1.1 429", "We only allow 1 requests per second for this Consumer.", "retry-after: 1"],
    ),
    (
        "too many in a minute",
        "-H 'Authorization: Bearer minute-token' 'URL/accounts?call=[1-2]'",
        &[
            "HTTP/1.1 429",
            "We only allow 1 requests per minute for this Consumer.",
            "x-rate-limit-remaining: 0",
        ],
    ),
    (
        "too many in an hour",
        "-H 'Authorization: Bearer hour-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per hour for this Consumer."],
    ),
    (
        "too many in a day",
        "-H 'Authorization: Bearer day-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per day for this Consumer."],
    ),
    (
        "too many in a week",
        "-H 'Authorization: Bearer week-token' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per week for this Consumer."],
    ),
    (
        "too many in a month",
        "-H 'Authorization: DirectLogin token=\"month-token\"' 'URL/accounts?call=[1-2]'",
        &["HTTP/1.1 429", "We only allow 1 requests per month for this Consumer."],
    ),
    (
        "without credentials, what is left of an hour",
        "URL/branches",
        &["HTTP/1.1 200", "x-rate-limit-limit: 2"],
    ),
    (
        "too many without credentials",
        "'URL/branches?call=[2-3]'",
        &["HTTP/1.1 429", "We only allow 2 requests per hour for anonymous access."],
    ),
    (
        "a consumer that is blocked",
        "-H 'Authorization: Bearer bert-token' URL/accounts",
        &["HTTP/1.1 403", "this consumer is blocked"],
    ),
    (
        "a token that nobody has",
        "-H 'Authorization: Bearer guessed' URL/accounts",
        &["HTTP/1.1 401", "www-authenticate: Bearer", "the token in the header authorization is not known"],
    ),
];

/// Prints them for a server at this address.
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
