//! The section `[cloudwatch]`, and what its mistakes say.

use std::path::Path;

use tollway_config::{FromConfig, Section};
use tollway_notify::cloudwatch::{CloudWatchConfig, Delivery};

#[derive(Debug)]
struct Only(Option<CloudWatchConfig>);

impl FromConfig for Only {
    fn read(root: &mut Section<'_>) -> Self {
        Self(tollway_notify::cloudwatch::read(root))
    }

    fn in_folder(&mut self, _: &Path) {}
}

fn read(text: &str) -> Result<Option<CloudWatchConfig>, String> {
    tollway_config::parse::<Only>(text).map(|Only(config)| config).map_err(|error| error.to_string())
}

#[test]
fn all_keys_have_defaults() {
    assert_eq!(read("").unwrap(), None);
    let config = read("[cloudwatch]").unwrap().unwrap();
    assert_eq!(config, CloudWatchConfig::new(Delivery::Emf));
    let text = "[cloudwatch]\nsend = 'put'\nnamespace = 'A/B'\ninterval = '10s'\nregion = 'eu-west-1'\n\
                endpoint = 'http://127.0.0.1:1'\ndimensions = { Stage = 'prod' }";
    let config = read(text).unwrap().unwrap();
    assert_eq!((config.delivery, config.namespace.as_str()), (Delivery::Put, "A/B"));
    assert_eq!(config.dimensions, [("Stage".to_owned(), "prod".to_owned())]);
}

#[test]
fn mistakes_are_pointed_at() {
    for (line, says) in [
        ("namespace = 'AWS/SQS'", "belong to AWS"),
        ("namespace = 'a b'", "' ' cannot be part of a namespace"),
        ("send = 'emff'", "did you mean \"emf\"?"),
        ("interval = '2h'", "`interval` is a time from 1s to 1h"),
        ("dimensions = { Policy = 'x' }", "is a dimension of Tollway's own figures"),
        ("dimensions = { A = 1 }", "the value of a dimension is a text"),
        ("dimensions = 'A'", "`dimensions` must be a table"),
        ("region = 'eu-west-1'", "is for `send = \"put\"`"),
        ("name_space = 'x'", "did you mean \"namespace\"?"),
    ] {
        let error = read(&format!("[cloudwatch]\n{line}\n")).unwrap_err();
        assert!(error.contains(says) && error.contains("line 2, "), "{line}: {error}");
    }
}
