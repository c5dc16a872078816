//! The second of the document's common issues: processes that count in different stores.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tollway_testkit::servers::{RedisCluster, RedisSentinel, RedisServer};

use super::{codes, config, told};
use crate::home::Home;

const LIMITED: &str = "per_minute = 100";

#[test]
fn finds_configs_with_different_stores() {
    let [redis, other] = [(); 2].map(|()| RedisServer::start_with(&["--save", "60 1"]));
    let home = Home::with_config(&config(&format!("{}?layout=consumers", redis.url()), LIMITED));
    let compared = |url: &str| {
        home.write("other.toml", config(url, LIMITED));
        codes(&home, &["--compare", "other.toml"])
    };
    assert_eq!(compared(&format!("{}?layout=consumers", other.url())), ["different-stores"]);
    assert!(
        told(&home, &["--compare", "other.toml"], "different-stores", "what").contains("different server")
    );
    for (behind, part) in
        [("/1?layout=consumers", "database"), ("", "layout"), ("?layout=consumers&prefix=x:", "prefix")]
    {
        assert_eq!(compared(&format!("{}{behind}", redis.url())), ["different-stores"], "{part}");
        let what = told(&home, &["--compare", "other.toml"], "different-stores", "what");
        assert!(what.contains(&format!("different {part}")), "{what}");
    }
    // A second host name of the same server.
    let renamed = redis.url().replace("127.0.0.1", "localhost");
    assert_eq!(compared(&format!("{renamed}/0?layout=consumers&deadline=1s")), Vec::<String>::new());
    assert_eq!(compared("memory:"), ["different-stores"]);
    home.write("other.toml", "[stor]\n");
    assert_eq!(codes(&home, &["--compare", "other.toml"]), ["config-wrong"]);
}

#[test]
fn finds_configs_with_different_files_and_records() {
    let home = Home::with_config(&config("file:state", LIMITED));
    std::fs::create_dir(home.path().join("there")).unwrap();
    home.write("there/tollway.toml", config("file:state", LIMITED));
    let compare = ["--compare", "there/tollway.toml"];
    assert_eq!(codes(&home, &compare), ["different-stores", "different-records"]);
    home.write(
        "there/tollway.toml",
        config("file:../state", &format!("{LIMITED}\nrecords = \"sqlite:../tollway.db\"")),
    );
    assert_eq!(codes(&home, &compare), Vec::<String>::new());
}

/// Sentinels lead to the server that others name themselves, and it is looked into.
#[test]
fn sentinel_url_equals_the_url_of_its_master() {
    let sentinel = RedisSentinel::start();
    let hosts: Vec<String> = sentinel.sentinels().iter().map(|server| server.addr().to_string()).collect();
    let url = format!("redis+sentinel://{}/{}", hosts.join(","), RedisSentinel::NAME);
    let home = Home::with_config(&format!("[store]\nurl = \"{url}\"\n"));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    sentinel.master().command(&["SET", "tollway:1:{s:a}:api", "x"]);
    assert_eq!(codes(&home, &[]), ["keys-without-ttl"]);
    sentinel.master().command(&["DEL", "tollway:1:{s:a}:api"]);
    home.write("other.toml", format!("[store]\nurl = \"{}\"\n", sentinel.master().url()));
    assert_eq!(codes(&home, &["--compare", "other.toml"]), Vec::<String>::new());
}

/// The nodes of a Cluster are looked into, each at its own keys.
#[test]
fn checks_every_node_of_a_cluster() {
    let cluster = RedisCluster::start(3);
    let hosts: Vec<String> = cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
    let home = Home::with_config(&format!("[store]\nurl = \"redis+cluster://{}\"\n", hosts.join(",")));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
    let keys: Vec<String> = (0..20).map(|subject| format!("tollway:1:{{s:{subject}}}:api")).collect();
    keys.iter().for_each(|key| drop(cluster.node_of(key).command(&["SET", key, "x"])));
    assert!(told(&home, &[], "keys-without-ttl", "what").starts_with("20 counters in Redis have no TTL"));
    keys.iter().for_each(|key| drop(cluster.node_of(key).command(&["DEL", key])));
    assert_eq!(codes(&home, &[]), Vec::<String>::new());
}

/// A server that runs, with where it is administered, and where it decides.
struct Served(Child, String, String);

impl Served {
    fn start(home: &Home, config: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollway"))
            .args([
                "serve",
                "--json",
                "--config",
                config,
                "--listen",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
            ])
            .current_dir(home.path())
            .env("TOLLWAY_TEST_TOKEN", "a-token-of-the-tests-0123456789")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        let admin = said["admin"].as_str().unwrap().to_owned();
        let listen = said["listen"].as_str().unwrap().to_owned();
        Self(child, format!("http://{admin}"), format!("http://{listen}"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn finds_a_server_with_another_store() {
    let [redis, other] = [(); 2].map(|()| RedisServer::start_with(&["--save", "60 1"]));
    let at = |redis: &RedisServer| config(&format!("{}?layout=consumers", redis.url()), LIMITED);
    let home = Home::with_config(&at(&redis));
    home.write("server.toml", at(&other));
    let served = Served::start(&home, "server.toml");
    assert_eq!(codes(&home, &["--server", &served.1]), ["different-stores"]);
    let same = Served::start(&home, "tollway.toml");
    assert_eq!(codes(&home, &["--server", &same.1]), Vec::<String>::new());
    // The same Redis under another name is the same.
    let renamed = at(&redis).replace("127.0.0.1", "localhost");
    home.write("tollway.toml", renamed);
    assert_eq!(codes(&home, &["--server", &same.1]), Vec::<String>::new());
    home.write("tollway.toml", at(&redis));
    redis.kill();
    assert_eq!(codes(&home, &["--server", &same.1]), ["store-unreachable", "store-unreachable"]);
    // Two names of a server that cannot be asked may be the same.
    home.write("tollway.toml", at(&redis).replace("127.0.0.1", "localhost"));
    let findings = ["store-unreachable", "(server-store-unknown)", "store-unreachable"];
    assert_eq!(codes(&home, &["--server", &same.1]), findings);
    home.write("tollway.toml", at(&redis));
    redis.restart();
    home.write("memory.toml", config("memory:", LIMITED));
    let in_memory = Served::start(&home, "memory.toml");
    assert_eq!(codes(&home, &["--server", &in_memory.1]), ["different-stores"]);
    let what = told(&home, &["--server", &in_memory.1], "different-stores", "what");
    assert!(what.ends_with("(different kind)"), "{what}");
    let gone = in_memory.1.clone();
    drop(in_memory);
    assert_eq!(codes(&home, &["--server", &gone]), ["server-unreachable"]);
}

/// What a server tells only those with a token is asked for with the config's.
#[test]
fn server_is_queried_with_the_token_of_the_config() {
    let tokens = "[server.tokens]\nread = \"env:TOLLWAY_TEST_TOKEN\"";
    let home = Home::with_config(&config("file:state", &format!("{LIMITED}\n{tokens}")));
    let served = Served::start(&home, "tollway.toml");
    assert_eq!(codes(&home, &["--server", &served.1]), ["server-unreachable"]);
    let mut doctor = home.tollway(&["doctor", "--server", &served.1]);
    let output = doctor.env("TOLLWAY_TEST_TOKEN", "a-token-of-the-tests-0123456789").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// A server reports no more of a store than its kind and the address of Redis; the rest is unknown, not different.
#[test]
fn server_with_a_file_is_not_called_different() {
    let home = Home::with_config("[store]\nurl = \"file:state\"\n[policies.a]\nlimits = [\"5 / minute\"]\n");
    let served = Served::start(&home, "tollway.toml");
    assert_eq!(codes(&home, &["--server", &served.1]), ["(server-store-unknown)"]);
    // Without consumers, the kind is known as well.
    home.write("other.toml", "[store]\nurl = \"memory:\"\n[policies.a]\nlimits = [\"5 / minute\"]\n");
    let other = Served::start(&home, "other.toml");
    assert_eq!(codes(&home, &["--server", &other.1]), ["different-stores"]);
    let what = told(&home, &["--server", &other.1], "different-stores", "what");
    assert!(what.contains("FILE here, MEMORY for http"), "{what}");
    // Without [store], commands count in a file and a server in memory.
    home.write("tollway.toml", "[policies.a]\nlimits = [\"5 / minute\"]\n");
    let without = Served::start(&home, "tollway.toml");
    assert_eq!(codes(&home, &["--server", &without.1]), ["different-stores"]);
}

/// What the config says of consumers is not what a server does that runs with another one.
#[test]
fn finds_a_server_with_consumers_switched_off() {
    let redis = RedisServer::start_with(&["--save", "60 1"]);
    let home = Home::with_config(&config(&format!("{}?layout=consumers", redis.url()), LIMITED));
    home.write("off.toml", config(&format!("{}?layout=consumers", redis.url()), "enabled = false"));
    let served = Served::start(&home, "off.toml");
    assert_eq!(codes(&home, &["--server", &served.1]), ["consumers-off"]);
    let what = told(&home, &["--server", &served.1], "consumers-off", "what");
    assert!(what.contains(&served.1), "{what}");
}

/// A server that is not asked at its administration address says nothing about its store.
#[test]
fn wrong_address_of_a_server_is_reported() {
    let redis = RedisServer::shared();
    let home = Home::with_config(&format!("[store]\nurl = \"{}\"\n", redis.url()));
    let served = Served::start(&home, "tollway.toml");
    assert_eq!(codes(&home, &["--server", &served.2]), ["server-unreachable"]);
    let fix = told(&home, &["--server", &served.2], "server-unreachable", "fix");
    assert!(fix.contains("administration address"), "{fix}");
    // Without consumers in its config, too.
    assert_eq!(codes(&home, &["--server", &served.1]), Vec::<String>::new());
}

/// C4: a listener that other machines reach without a credential is a note; so is one that answers under every name.
#[test]
fn finds_open_listeners() {
    let listeners = "[server]\nlisten = '0.0.0.0:8080'\ngrpc = '127.0.0.1:8081'\nresp = '[::]:6380'\n";
    let open = |more: &str| {
        let home = Home::with_config(&format!("{}\n{listeners}{more}", config("file:state", LIMITED)));
        codes(&home, &[])
    };
    assert_eq!(open(""), ["(any-host)", "(listener-open)", "(listener-open)"]);
    assert_eq!(open("hosts = ['a.example']\n[server.tokens]\nresp = 'env:X'"), ["(listener-open)"]);
    assert_eq!(open("hosts = ['a.example']\n[server.tokens]\nresp = 'env:X'\ndecisions = 'env:Y'"), [""; 0]);
}
