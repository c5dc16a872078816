//! The pool of this store's sessions.

use std::sync::Arc;

use crate::options::PostgresOptions;
use crate::session::Session;

/// At most as many sessions as the options say.
pub(crate) type Pool = tollway_postgres_link::Pool<Session>;

/// A session in use.
pub(crate) type PooledSession = tollway_postgres_link::PooledSession<Session>;

/// A pool that connects when it is first used.
pub(crate) fn pool(options: PostgresOptions) -> Arc<Pool> {
    let connections = options.connections;
    Pool::new(options, connections)
}
