//! The importer of OBP-API's properties. The command is no library, so its files are compiled here a second time.

#[path = "../../../tollway-cli/src/policy/import/obp/config.rs"]
mod config;
#[path = "../../../tollway-cli/src/policy/import/obp/properties.rs"]
#[allow(dead_code, reason = "the command's own tests are not run here")]
mod properties;
#[path = "../../../tollway-cli/src/policy/import/obp/settings.rs"]
#[allow(unexpected_cfgs, reason = "a feature of the command, not of this crate")]
mod settings;

use std::path::Path;

use tollway_server::ConfigWithServer;

use crate::{fuzz, is_harmless};

/// C6: what an import writes is a config, and its notes are fit to be read.
#[test]
fn properties() {
    fuzz("properties", |input| {
        let read = properties::read(input).and_then(|properties| settings::Settings::of(&properties));
        let settings = match read {
            Ok(settings) => settings,
            Err(message) => {
                is_harmless(&message);
                return tollway_fuzz::kind_of(&message);
            }
        };
        settings.notes.iter().for_each(|note| is_harmless(note));
        let style = config::Style { password: true, tls: false };
        let written = config::write(&settings, Path::new("fuzz.props"), style);
        if let Err(error) = ConfigWithServer::parse(&written) {
            panic!("{error}\n{written}");
        }
        format!("{} notes, {}", settings.notes.len().min(6), settings.enabled)
    });
}
