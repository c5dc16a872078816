//! Listeners that other machines reach without a credential.

use tollway_server::{Exposure, ServerConfig};

use super::finding::{Finding, Findings};

pub(super) fn look_at(config: &ServerConfig, findings: &mut Findings) {
    config.exposures().iter().for_each(|exposure| findings.add(finding(exposure)));
}

fn finding(exposure: &Exposure) -> Finding {
    match exposure {
        Exposure::NoCredential { listener, address, token } => Finding::note(
            "listener-open",
            format!(
                "`{listener}` listens on {address}, which other machines can reach, without a credential"
            ),
            "a client that reaches it can spend the quota of any subject",
            format!("set `{token}` in [server.tokens], or let only your own network reach it"),
        ),
        Exposure::AnyHost { listener, address } => Finding::note(
            "any-host",
            format!("`{listener}` on {address} answers under every host name"),
            "a web page in a browser of your network could point its own name there",
            "set `hosts` in [server] to the names that clients use",
        ),
    }
}
