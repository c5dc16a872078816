//! The keys of `[server]` that a reload cannot change.

use crate::ServerConfig;

/// The keys of `[server]` that differ and take effect only after a restart.
pub fn needs_restart(in_force: &ServerConfig, read: &ServerConfig) -> Vec<&'static str> {
    // Every field is named, so that a new one is not forgotten here.
    let ServerConfig {
        listen,
        admin,
        grpc,
        resp,
        workers,
        connections,
        connections_per_address,
        drain,
        grace,
        permits_token,
        // A reload applies these.
        descriptors: _,
        headers: _,
        headers_named: _,
        policy_headers: _,
        address: _,
        subject_headers: _,
        read_token: _,
        write_token: _,
        resp_token: _,
        tls: _,
        new_subjects: _,
        hosts: _,
        decisions_token: _,
        named_tokens: _,
        allowed_origins: _,
        metrics: _,
    } = in_force;
    let keys = [
        ("listen", *listen == read.listen),
        ("admin", *admin == read.admin),
        ("grpc", *grpc == read.grpc),
        ("resp", *resp == read.resp),
        ("workers", *workers == read.workers),
        ("connections", *connections == read.connections),
        ("connections_per_address", *connections_per_address == read.connections_per_address),
        ("drain", *drain == read.drain),
        ("grace", *grace == read.grace),
        ("tokens.permits", *permits_token == read.permits_token),
    ];
    keys.into_iter().filter(|(_, same)| !same).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigWithServer;

    #[test]
    fn needs_restart_names_exactly_the_fixed_keys() {
        let read = |text: &str| ConfigWithServer::parse(text).unwrap().server().cloned().unwrap();
        let in_force = ServerConfig::default();
        for (key, value) in [
            ("listen", "'unix:/run/x'"),
            ("admin", "'127.0.0.1:9'"),
            ("grpc", "'127.0.0.1:9'"),
            ("resp", "'127.0.0.1:9'"),
            ("workers", "3"),
            ("connections", "3"),
            ("connections_per_address", "3"),
            ("drain", "'3s'"),
            ("grace", "'3s'"),
            ("tokens.permits", "'env:X'"),
        ] {
            assert_eq!(needs_restart(&in_force, &read(&format!("[server]\n{key} = {value}"))), [key]);
        }
        let rules = read("[server]\nheaders = []\n[server.tokens]\nread = 'env:X'");
        assert_eq!(needs_restart(&in_force, &rules), [""; 0]);
    }
}
