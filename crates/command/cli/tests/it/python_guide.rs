//! The client of docs/guide/python.md, as it stands.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::process::Command;

use tollway_testkit::servers::{RedisServer, python_tool};
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::home::Home;
use crate::serve::serving::Serving;

/// The Python of the page: a client and its use, with limits that are known and with one that is not.
fn code() -> [String; 4] {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guide/python.md");
    let page = std::fs::read_to_string(path).unwrap();
    let blocks = page.split("```python\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks.collect::<Vec<_>>().try_into().unwrap()
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
    let [client, uses, ..] = code();
    let client = client.replace("\"http://127.0.0.1:8080\"", &servers.join(", "));
    let said = python(&format!("{client}\n{uses}"));
    assert_eq!(said, "call the vendor for page 1\ncall the vendor for page 2\ncall the vendor for page 3\n");
    first.stop();
    // The other server goes on with the same meters: one more, and then none.
    let said = python(&format!("{client}\nprint(take('vendor'), take('vendor', wait=1))"));
    assert_eq!(said, "True False\n");
}

/// D1: a Python program that reports answers finds a limit of 20 a second; one that does not stays at 3.
#[test]
fn program_that_reports_answers_finds_the_limit() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let settings = VendorSettings::new(["20 / second bucket"]).unwrap();
    let vendor = runtime.block_on(VendorServer::start(settings)).unwrap();
    let home = Home::with_config(&format!("[apis.v]\nbase_url = \"{}\"\nrate = \"auto\"\n", vendor.url()));
    let serving = Serving::start(&home, &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let rate = || {
        let metrics = serving.ask("administration", "GET /metrics", "", "");
        let line = metrics.lines().find(|line| line.starts_with("tollway_api_rate{"));
        line.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
    };
    let [.., client, uses] = code();
    let client = client.replace("127.0.0.1:8080", &serving.address("decisions"));
    let said = python(&format!("{client}\n{}", uses.replace("http://127.0.0.1:9000", &vendor.url())));
    let answered: Vec<String> = (0..40).map(|page| format!("{page} 200\n")).collect();
    assert_eq!(said, answered.concat());
    let (found, counts) = (rate(), vendor.counts());
    assert!(found.is_some_and(|rate| rate > 4.0), "{found:?}");
    assert!(counts.accepted == 40 && counts.refused <= 8, "{counts:?}");
}
