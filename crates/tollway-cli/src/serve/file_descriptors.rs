//! Raises the limit of open file descriptors: each connection needs one, and the default is low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollway_server::ADMINISTRATION_CONNECTIONS_MAX;

/// Descriptors for everything but decision connections: administration, stores, files and listening sockets.
const OTHER_DESCRIPTORS: usize = ADMINISTRATION_CONNECTIONS_MAX + 128;

/// Raises the limit as far as the machine allows, and warns if that is not enough.
pub(super) fn raise_limit(connections: usize) {
    let needed = u64::try_from(connections.saturating_add(OTHER_DESCRIPTORS)).unwrap_or(u64::MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    let given = getrlimit(Resource::Nofile).current;
    if let Some(given) = given.filter(|given| *given < needed) {
        tracing::warn!(
            "{connections} connections need {needed} file descriptors, but the limit is {given}; raise `ulimit -n`, or lower `connections` in [server]"
        );
    }
}
