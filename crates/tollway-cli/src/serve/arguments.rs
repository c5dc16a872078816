//! What the command line says of a server.

use tollway_server::{ListenAddress, ServerConfig};

use super::log::Level;

/// Serve decisions over HTTP, Envoy's gRPC and the Redis protocol
///
/// Listens on 127.0.0.1:8080 for HTTP unless the config or --listen says otherwise, and elsewhere only if told to. Meters
/// live in the config's store, or in memory. Without a config file it serves one policy, `example`, to try. Stops on
/// SIGTERM and SIGINT: says so to balancers for the config's `drain`, which a second signal ends, and ends once running
/// requests are answered. Reads the config again when it changes, and on SIGHUP also what it names: tokens and
/// certificates.
///
/// An ADDRESS is IP:PORT or unix:PATH. unix:PATH?mode=0660 says who may connect, as chmod does; else the umask does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway serve
  tollway serve --config /etc/tollway.toml --listen 0.0.0.0:8080
  tollway serve --listen 'unix:/run/tollway.sock?mode=0660' --admin 127.0.0.1:9090
  tollway serve --grpc 127.0.0.1:8081 --resp 127.0.0.1:6380")]
pub(crate) struct Arguments {
    /// Where to listen for decisions: IP:PORT or unix:PATH [default: the config's, else 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Where to listen for administration [default: the config's, else nowhere]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<ListenAddress>,
    /// Where to listen for Envoy, over gRPC [default: the config's, else nowhere]
    #[arg(long, value_name = "ADDRESS")]
    grpc: Option<ListenAddress>,
    /// Where to listen for Redis clients, who choose their limits themselves [default: the config's, else nowhere]
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<ListenAddress>,
    /// How many threads decide [default: the config's, else one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: Option<u16>,
    /// What is logged to standard error, and all that matters more [default: $TOLLWAY_LOG_LEVEL, else info]
    #[arg(long, value_name = "LEVEL")]
    pub(super) log_level: Option<Level>,
}

impl Arguments {
    /// What is in force: the command line beats the file.
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
