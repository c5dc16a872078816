//! Postgres as the store and for the records.

use tollway_testkit::servers::PostgresServer;

use super::{codes, config};
use crate::home::Home;

#[test]
fn finds_unreachable_postgres() {
    let postgres = PostgresServer::start();
    let url = postgres.url();
    let home = Home::with_config(&config(&url, &format!("records = \"{url}\"\nper_minute = 100")));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    home.write("other.toml", config(&format!("{url}?schema=others"), &format!("records = \"{url}\"")));
    assert_eq!(codes(&home, &["--compare", "other.toml"]), ["different-stores"]);
    home.write("other.toml", config(&url, &format!("records = \"{url}\"")));
    assert_eq!(codes(&home, &["--compare", "other.toml"]), Vec::<String>::new());
    postgres.kill();
    assert_eq!(codes(&home, &["--consumer", "abc"]), ["records-unreachable", "store-unreachable"]);
    postgres.restart();
    assert_eq!(codes(&home, &["--consumer", "abc"]), ["(no-record)"]);
}
