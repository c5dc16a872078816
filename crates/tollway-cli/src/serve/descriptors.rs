//! Room for connections: each needs a descriptor, and a process is given few unless it asks for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollway_server::ADMINISTRATION_CONNECTIONS_MAX;

/// Descriptors besides the connections for decisions: those for administration, stores, files, sockets that are listened
/// at.
const BESIDE_CONNECTIONS: usize = ADMINISTRATION_CONNECTIONS_MAX + 128;

/// Raises the limit of descriptors as far as the machine allows, and says if that is not enough.
pub(super) fn make_room(connections: usize) {
    let needed = u64::try_from(connections.saturating_add(BESIDE_CONNECTIONS)).unwrap_or(u64::MAX);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    let given = getrlimit(Resource::Nofile).current;
    if let Some(given) = given.filter(|given| *given < needed) {
        tracing::warn!(
            "this process may open {given} descriptors, and {connections} connections need {needed}; raise `ulimit -n`, or lower `connections` of [server]"
        );
    }
}
