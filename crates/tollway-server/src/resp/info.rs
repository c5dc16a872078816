//! `INFO [section ...]`: what some libraries want to read before they ask anything, and as little as that.

use super::reply::Reply;
use super::session::Session;

/// By section. The version is that of the Redis whose words and protocol ours are, which is what libraries look for.
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

/// Words for more than one section.
const ALL: [&str; 3] = ["default", "all", "everything"];

/// Sections that there are not are left out, as with Redis.
pub(super) fn answer(session: &Session, arguments: &[&[u8]], out: &mut Vec<u8>) {
    let asked = arguments.get(1..).unwrap_or_default();
    let is_asked = |name: &str| asked.iter().any(|asked| asked.eq_ignore_ascii_case(name.as_bytes()));
    let all = asked.is_empty() || ALL.into_iter().any(is_asked);
    let sections = SECTIONS.iter().filter(|(name, _)| all || is_asked(name));
    let texts: Vec<String> = sections.map(|(name, facts)| format!("# {name}\r\n{facts}")).collect();
    out.text(&texts.join("\r\n"), session.protocol());
}
