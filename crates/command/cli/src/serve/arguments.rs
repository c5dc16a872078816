//! Command-line options of `tollway serve`.

use tollway_server::{ListenAddress, ServerConfig};

use super::log::{Format, Level};
use crate::dashboard::Mode;

/// Serve decisions over HTTP, Envoy's gRPC and the Redis protocol
///
/// Listens for HTTP on 127.0.0.1:8080 by default; other listeners are off unless configured. Usage is counted in the
/// config's store, or in memory. Without a config file it serves one policy, `example`.
///
/// On SIGTERM or SIGINT it reports "not ready" for the config's `drain` time, then finishes requests in flight and exits;
/// a second signal ends the drain. It reloads the config when the file changes. SIGHUP also reloads tokens and
/// certificates.
///
/// The dashboard is at the address for administration. On a terminal it opens 127.0.0.1:9090, or the next free of ten ports,
/// if the config names none, and prints a link with a token.
///
/// An ADDRESS is IP:PORT or unix:PATH. unix:PATH?mode=0660 sets the socket's permissions; otherwise the umask applies.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway serve
  tollway serve --config /etc/tollway.toml --listen 0.0.0.0:8080
  tollway serve --listen 'unix:/run/tollway.sock?mode=0660' --admin 127.0.0.1:9090
  tollway serve --grpc 127.0.0.1:8081 --resp 127.0.0.1:6380")]
pub(crate) struct Arguments {
    /// Listen for decisions over HTTP [default: the config's, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Listen for administration [default: the config's, else 127.0.0.1:9090 on a terminal, else off]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<ListenAddress>,
    /// Listen for Envoy's gRPC [default: the config's, else off]
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<ListenAddress>,
    /// Listen for Redis clients, which send their limits with each command [default: the config's, else off]
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<ListenAddress>,
    /// Number of worker threads [default: the config's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: Option<u16>,
    /// What the dashboard's printed link may do
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    pub(super) dashboard: Mode,
    /// Lowest level to log on standard error [default: $TOLLWAY_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<Level>,
    /// How log lines are written on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(super) log_format: Format,
}

impl Arguments {
    /// Applies the options to a config: the command line overrides the file.
    pub(super) fn over(&self, mut config: ServerConfig) -> ServerConfig {
        if let Some(listen) = &self.listen {
            config.listen = listen.clone();
        }
        let doors = [
            (&self.admin, &mut config.admin),
            (&self.grpc, &mut config.grpc),
            (&self.resp, &mut config.resp),
        ];
        for (asked, door) in doors {
            if asked.is_some() {
                door.clone_from(asked);
            }
        }
        if let Some(workers) = self.workers {
            config.workers = Some(workers.into());
        }
        config
    }
}
