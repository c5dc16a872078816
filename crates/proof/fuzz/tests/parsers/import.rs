//! The importer of Envoy's rate limit files.

use tollway_import::{ImportError, SourceFile, envoy};
use tollway_server::ConfigWithServer;

use crate::{fuzz, is_harmless, text};

/// The only error that is found in the resulting config instead of the file: a duplicate descriptor.
const TWICE: &str = "has two rules for the same `keys`";

/// B10: an import writes a valid config with the policies it found, and its notes are printable.
#[test]
fn import() {
    fuzz("import", |input| {
        let yaml = text(input);
        let imported = match envoy::import(&[SourceFile { name: "fuzz.yaml", bytes: yaml.as_bytes() }]) {
            Ok(imported) => imported,
            Err(ImportError::NoConfig(error)) => {
                let is_twice = error.problems().iter().all(|problem| problem.message().contains(TWICE));
                assert!(is_twice, "{error}\n{yaml}");
                return TWICE.to_owned();
            }
            Err(error) => return tollway_fuzz::kind_of(&error.to_string()),
        };
        imported.notes.iter().for_each(|note| is_harmless(note));
        let config =
            ConfigWithServer::parse(&imported.config).expect("an import is parsed before it is returned");
        let heads = |head: &str| imported.config.lines().filter(|line| line.starts_with(head)).count();
        assert_eq!(config.limits().policies().len(), heads("[policies."));
        let rules = heads("[[server.descriptors]]");
        format!("{} rules, {} notes", rules.min(6), imported.notes.len().min(6))
    });
}
