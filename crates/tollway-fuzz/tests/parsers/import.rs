//! The importer of Envoy's rate limit files. The command is no library, so its files are compiled here a second time.

#[path = "../../../tollway-cli/src/policy/import/names.rs"]
mod names;
#[path = "../../../tollway-cli/src/policy/import/rules.rs"]
mod rules;
#[path = "../../../tollway-cli/src/policy/import/toml.rs"]
mod toml;
#[path = "../../../tollway-cli/src/policy/import/yaml.rs"]
mod yaml;

use tollway_server::ConfigWithServer;

use crate::{fuzz, is_harmless, text};

/// The one mistake in a file that only the config made of it shows: a descriptor that stands there twice.
const TWICE: &str = "has two rules for the same `keys`";

/// B10: what an import writes is a config with the policies it found, and its notes are fit to be read.
#[test]
fn import() {
    fuzz("import", |input| {
        let mut import = rules::Import::default();
        let added = yaml::read(&text(input)).and_then(|domain| import.add(&domain));
        if let Err(message) = added {
            return tollway_fuzz::kind_of(&message);
        }
        import.notes.iter().for_each(|note| is_harmless(note));
        let written = toml::write(&import, &[]);
        let config = match ConfigWithServer::parse(&written) {
            Ok(config) => config,
            Err(error) if error.problems().iter().all(|problem| problem.message().contains(TWICE)) => {
                return TWICE.to_owned();
            }
            Err(error) => panic!("{error}\n{written}"),
        };
        let is_policy = |rule: &&rules::Rule| matches!(rule.target, rules::Target::Policy { .. });
        assert_eq!(config.limits().policies().len(), import.rules.iter().filter(is_policy).count());
        format!("{} rules, {} notes", import.rules.len().min(6), import.notes.len().min(6))
    });
}
