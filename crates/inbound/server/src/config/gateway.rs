//! The section `[gateway]`: where `tollway gateway` listens, who may call it, and who may read its metrics.

use std::net::{Ipv4Addr, SocketAddr};

use tollway_config::Section;

use super::access::{read_tls, read_token};
use super::{CONNECTIONS_MAX, ListenAddress, ServerConfig, WORKERS_MAX, callers, listen, number, read_time};

impl ServerConfig {
    /// The config of a gateway without the section: on port 4000 of this machine.
    pub fn gateway() -> Self {
        let listen = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4_000)));
        Self { listen, ..Self::default() }
    }

    /// Reads the section `[gateway]`, and reports its mistakes.
    pub fn read_gateway(mut section: Section<'_>) -> Self {
        let base = Self::gateway();
        let config = Self {
            listen: listen::read(&mut section, "listen", "127.0.0.1:4000").unwrap_or(base.listen),
            admin: listen::read(&mut section, "admin", "127.0.0.1:4001"),
            workers: number::read(&mut section, "workers", 1..=WORKERS_MAX),
            connections: number::read(&mut section, "connections", 1..=CONNECTIONS_MAX)
                .unwrap_or(base.connections),
            connections_per_address: number::read(
                &mut section,
                "connections_per_address",
                1..=CONNECTIONS_MAX,
            )
            .unwrap_or(base.connections_per_address),
            drain: read_time(&mut section, "drain", "5s").unwrap_or(base.drain),
            grace: read_time(&mut section, "grace", "10s").unwrap_or(base.grace),
            hosts: callers::read_hosts(&mut section),
            allowed_origins: callers::read_origins(&mut section),
            decisions_token: read_token(&mut section, "token"),
            read_token: read_token(&mut section, "admin_token"),
            tls: section.section("tls").and_then(read_tls),
            ..base
        };
        section.finish();
        config
    }
}
