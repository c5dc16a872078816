//! Whether two URLs lead to the same store: by what they say, else by who answers.

use std::collections::BTreeSet;

use super::servers::{Kind, Url, connect};

/// How a server calls itself: drawn anew with each start.
const RUN_ID: &str = "run_id:";

/// How two stores differ, if they do.
pub(in crate::doctor) async fn same_store(ours: &str, theirs: &str) -> Option<&'static str> {
    let (Some(ours), Some(theirs)) = (Url::read(ours), Url::read(theirs)) else { return Some("server") };
    if (ours.kind == Kind::Cluster) != (theirs.kind == Kind::Cluster) {
        return Some("server");
    }
    if !same_servers(&ours, &theirs).await {
        return Some("server");
    }
    if ours.database != theirs.database {
        return Some("database");
    }
    if ours.has_consumers_layout() != theirs.has_consumers_layout() {
        return Some("layout");
    }
    // In the layout of consumers, only what is remembered beside the counters has a prefix.
    (ours.prefix != theirs.prefix).then_some("prefix")
}

/// Whether the server behind a URL is the one at this host and port.
pub(in crate::doctor) async fn is_at(url: &str, host: &str, port: u16) -> bool {
    let Some(ours) = Url::read(url) else { return false };
    let there = ours.at(host, port);
    same_servers(&ours, &there).await
}

async fn same_servers(ours: &Url, theirs: &Url) -> bool {
    if ours.kind == theirs.kind && ours.hosts.iter().collect::<BTreeSet<_>>() == theirs.hosts.iter().collect()
    {
        return true;
    }
    // A host has many names; a server has one.
    let (ours, theirs) = (run_ids(ours).await, run_ids(theirs).await);
    !ours.is_disjoint(&theirs)
}

async fn run_ids(url: &Url) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for mut server in connect(url).await {
        let info: String = server.ask(&["INFO", "server"]).await.unwrap_or_default();
        ids.extend(info.lines().find_map(|line| line.strip_prefix(RUN_ID)).map(str::to_owned));
    }
    ids
}
