//! `INFO [section ...]`: only what some client libraries read before their first request.

use super::reply::Reply;
use super::session::Session;

/// By section. Libraries check the version: it is that of the Redis whose protocol and errors this server follows.
const SECTIONS: [(&str, &str); 3] = [
    (
        "Server",
        concat!(
            "redis_version:7.0.0\r\nredis_mode:standalone\r\ntollway_version:",
            env!("CARGO_PKG_VERSION"),
            "\r\n"
        ),
    ),
    ("Persistence", "loading:0\r\n"),
    ("Replication", "role:master\r\nconnected_slaves:0\r\n"),
];

/// Names for all sections.
const ALL: [&str; 3] = ["default", "all", "everything"];

/// Unknown sections are left out, as in Redis.
pub(super) fn answer(session: &Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let asked = arguments.get(1..).unwrap_or_default();
    let is_asked = |name: &str| asked.iter().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()));
    let all = asked.is_empty() || ALL.into_iter().any(is_asked);
    let sections = SECTIONS.iter().filter(|(name, _)| all || is_asked(name));
    let texts: Vec<String> = sections.map(|(name, facts)| format!("# {name}\r\n{facts}")).collect();
    out.text(&texts.join("\r\n"), session.protocol());
}
