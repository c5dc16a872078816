//! What a URL says: where Postgres is, which schema, and how the store behaves.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tollway_core::StoreUrlParts;
use tollway_postgres_link::{Address, AddressError, SchemaName};
use tollway_remote::DENIALS_MAX;

/// The default number of connections: a transaction carries many calls, so few are busy.
const CONNECTIONS_DEFAULT: usize = 4;

/// The most connections of one process: a server has a hundred for all.
const CONNECTIONS_MAX: usize = 64;

/// The longest a caller may be made to wait for the store.
const DEADLINE_MAX: Duration = Duration::from_secs(30);

/// Where a store is, and how it behaves: `postgres://user:password@host:port/database?schema=tollway&deadline=500ms`.
///
/// | parameter | meaning | if not given |
/// |---|---|---|
/// | `schema` | where its tables are; made if it is not there | `tollway` |
/// | `denials` | how long a denial is repeated from memory, at most `1s`; `0s`: each take is a call | `1s` |
/// | `deadline` | within which every caller is answered (`500ms`, `2s`) | `500ms` |
/// | `connections` | how many it opens at most | 4 |
/// | `sslrootcert` | a file with the certificates to trust, where `sslmode=require` | those of the system |
/// | `crash` | `keeps`: what was granted is on disk before it is answered. `may-forget`: it need not be | `keeps` |
///
/// Everything else is Postgres's own (`target_session_attrs`, several hosts, ...). With `sslmode=require` all goes over
/// TLS, and the server must show a certificate that is trusted and names the host; else nothing does.
#[derive(Clone)]
pub struct PostgresOptions {
    pub(crate) address: Address,
    pub(crate) schema: SchemaName,
    pub(crate) deadline: Duration,
    pub(crate) denials: Duration,
    pub(crate) connections: usize,
    pub(crate) crash: Crash,
}

impl PostgresOptions {
    /// How long a statement waits for a lock. A caller waits for the call in flight and then for its own; both find out that
    /// an account is busy before the deadline.
    pub(crate) fn lock_wait(&self) -> Duration {
        self.deadline * 2 / 5
    }
}

/// What a crash of the server may do to what was granted in its last moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Nothing: a forgotten grant would be granted twice (I1).
    Keeps,
    /// It may be forgotten; in return no caller waits for the disk.
    MayForget,
}

/// A URL that is not one. It never repeats the URL, which may hold a password.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PostgresUrlError(String);

tollway_core::debug_as_display!(PostgresUrlError);

impl FromStr for PostgresOptions {
    type Err = PostgresUrlError;

    fn from_str(url: &str) -> Result<Self, PostgresUrlError> {
        let parts = StoreUrlParts::read(url);
        let parts = parts.filter(|parts| matches!(parts.scheme, "postgres" | "postgresql"));
        let parts = parts.ok_or_else(|| wrong("a Postgres URL begins with postgres://"))?;
        let mut theirs = Vec::new();
        let mut ours = Ours {
            schema: SchemaName::default(),
            deadline: tollway_remote::Options::default().deadline,
            denials: DENIALS_MAX,
            connections: CONNECTIONS_DEFAULT,
            crash: Crash::Keeps,
            root_certificates: None,
        };
        for parameter in parts.query.split('&').filter(|parameter| !parameter.is_empty()) {
            if !ours.set(parameter)? {
                theirs.push(parameter);
            }
        }
        let Ours { schema, deadline, denials, connections, crash, root_certificates } = ours;
        let address = Address::new(parts.before_query, &theirs, root_certificates).map_err(no_address)?;
        Ok(Self { address, schema, deadline, denials, connections, crash })
    }
}

/// The parameters that Postgres does not know.
struct Ours {
    schema: SchemaName,
    deadline: Duration,
    denials: Duration,
    connections: usize,
    crash: Crash,
    root_certificates: Option<PathBuf>,
}

impl Ours {
    /// Takes a parameter of the store; false if it is not one.
    fn set(&mut self, parameter: &str) -> Result<bool, PostgresUrlError> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "schema" => self.schema = SchemaName::new(value).map_err(|reason| wrong(&reason))?,
            "deadline" => self.deadline = read_deadline(value)?,
            "denials" => self.denials = read_denials(value)?,
            "connections" => self.connections = read_connections(value)?,
            "sslrootcert" => self.root_certificates = Some(value.into()),
            "crash" => {
                self.crash = match value {
                    "keeps" => Crash::Keeps,
                    "may-forget" => Crash::MayForget,
                    _ => return Err(wrong("crash is keeps or may-forget")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn read_deadline(value: &str) -> Result<Duration, PostgresUrlError> {
    let span = tollway_core::read_span(value).map_err(|error| wrong(&format!("deadline: {error}")))?;
    let deadline = Duration::from(span);
    if deadline.is_zero() || deadline > DEADLINE_MAX {
        return Err(wrong(&format!("deadline is above 0 and at most {}s", DEADLINE_MAX.as_secs())));
    }
    Ok(deadline)
}

fn read_denials(value: &str) -> Result<Duration, PostgresUrlError> {
    let span = tollway_core::read_span(value).map_err(|error| wrong(&format!("denials: {error}")))?;
    let denials = Duration::from(span);
    if denials > DENIALS_MAX {
        return Err(wrong(&format!("denials is at most {}s", DENIALS_MAX.as_secs())));
    }
    Ok(denials)
}

fn read_connections(value: &str) -> Result<usize, PostgresUrlError> {
    match value.parse() {
        Ok(count @ 1..=CONNECTIONS_MAX) => Ok(count),
        _ => Err(wrong(&format!("connections is a number from 1 to {CONNECTIONS_MAX}"))),
    }
}

fn wrong(reason: &str) -> PostgresUrlError {
    PostgresUrlError(reason.to_owned())
}

fn no_address(error: AddressError) -> PostgresUrlError {
    match error {
        AddressError::NotPostgres(reason) => wrong(&format!("not a Postgres URL: {reason}")),
        AddressError::NoTls => {
            wrong("sslmode=require needs a build of tollway-postgres with its feature `tls`")
        }
        AddressError::NoHost => wrong(&error.to_string()),
    }
}

/// Without the password.
impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address: Address { config, root_certificates },
            schema,
            deadline,
            denials,
            connections,
            crash,
        } = self;
        f.debug_struct("PostgresOptions")
            .field("hosts", &config.get_hosts())
            .field("ports", &config.get_ports())
            .field("user", &config.get_user())
            .field("database", &config.get_dbname())
            .field("schema", schema)
            .field("deadline", deadline)
            .field("denials", denials)
            .field("connections", connections)
            .field("crash", crash)
            .field("root_certificates", root_certificates)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<PostgresOptions, PostgresUrlError> {
        url.parse()
    }

    #[test]
    fn store_and_postgres_parameters_are_separated() {
        let url = "postgres://me:secret@db:5433/app?schema=limits&sslmode=disable&deadline=2s&denials=200ms&connections=7";
        let options = read(url).unwrap();
        assert_eq!(options.schema.as_str(), "limits");
        assert_eq!((options.deadline, options.denials), (Duration::from_secs(2), Duration::from_millis(200)));
        assert_eq!((options.connections, options.crash), (7, Crash::Keeps));
        assert_eq!(options.address.config.get_ports(), [5433]);
        assert!(!options.address.is_encrypted());
        assert_eq!(read("postgres://db/?crash=may-forget").unwrap().crash, Crash::MayForget);
    }

    #[test]
    fn wrong_urls_are_refused_and_the_password_is_never_shown() {
        for url in [
            "redis://me:secret@db",
            "postgres:///app",
            "postgres://me:secret@db:port/app",
            "postgres://me:secret@db/app?schema=a;drop",
            "postgres://me:secret@db/app?schema=pg_mine",
            "postgres://me:secret@db/app?deadline=never",
            "postgres://me:secret@db/app?deadline=2h",
            "postgres://me:secret@db/app?denials=2s",
            "postgres://me:secret@db/app?connections=0",
            "postgres://me:secret@db/app?crash=perhaps",
            "postgres://me:secret@db/app?colour=secret",
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{url}: {error}");
        }
        let options = read("postgres://me:secret@db/app").unwrap();
        assert_eq!(options.denials, DENIALS_MAX);
        assert!(!format!("{options:?}").contains("secret"));
    }
}
