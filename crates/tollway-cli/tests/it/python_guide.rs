//! The client of docs/guide/python.md, as it stands.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::process::Command;

use tollway_testkit::servers::{RedisServer, python_tool};

use crate::home::Home;
use crate::serve::serving::Serving;

/// The Python of the page: the client, and its first use.
fn code(servers: &str) -> [String; 2] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/python.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut blocks =
        page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    let client = blocks.next().unwrap().replace("\"http://127.0.0.1:8080\"", servers);
    [client, blocks.next().unwrap()]
}

fn python(program: &str) -> String {
    let ran = Command::new(python_tool("python3")).args(["-c", program]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn page_works_with_two_servers_of_which_one_is_killed() {
    let redis = RedisServer::start();
    let config =
        format!("[store]\nurl = \"{}\"\n[policies.vendor]\nlimits = [\"4 requests / day\"]\n", redis.url());
    let homes = [Home::with_config(&config), Home::with_config(&config)];
    let [first, second] = homes.each_ref().map(|home| Serving::start(home, &["--listen", "127.0.0.1:0"]));
    let servers = [&first, &second].map(|serving| format!("\"http://{}\"", serving.address("decisions")));
    let [client, uses] = code(&servers.join(", "));
    let said = python(&format!("{client}\n{uses}"));
    assert_eq!(said, "call the vendor for page 1\ncall the vendor for page 2\ncall the vendor for page 3\n");
    first.stop();
    // The other server goes on with the same meters: one more, and then none.
    let said = python(&format!("{client}\nprint(take('vendor'), take('vendor', wait=1))"));
    assert_eq!(said, "True False\n");
}
