//! Fits connections and the limit of open file descriptors: each connection needs one, and the default is low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollway_server::ADMINISTRATION_CONNECTIONS_MAX;

/// Descriptors for everything but decision connections: administration, stores, files and listening sockets.
const OTHER_DESCRIPTORS: usize = ADMINISTRATION_CONNECTIONS_MAX + 128;

/// The fewest connections, however low the limit: with fewer the server would serve no one.
const CONNECTIONS_MIN: usize = 16;

/// Raises the limit as far as the machine allows. If that is not enough, returns how many connections fit, and says so.
pub(crate) fn raise_limit(connections: usize) -> usize {
    let needed = u64::try_from(connections.saturating_add(OTHER_DESCRIPTORS)).unwrap_or(u64::MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    let given = getrlimit(Resource::Nofile).current;
    let Some(given) = given.filter(|given| *given < needed) else { return connections };
    let left = usize::try_from(given).unwrap_or(usize::MAX).saturating_sub(OTHER_DESCRIPTORS);
    let fitting = connections.min(left).max(CONNECTIONS_MIN);
    tracing::warn!(
        "{connections} connections need {needed} file descriptors, but the limit is {given}; serving at most {fitting} at a time; raise `ulimit -n`, or lower `connections` in [server]"
    );
    fitting
}
