//! The servers of the kit start, answer, pause, come back, and leave nothing behind.
#![cfg(unix)]
#![allow(clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write, stdout};
use std::net::{SocketAddr, TcpStream};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tollway_testkit::servers::{PostgresServer, RedisCluster, RedisSentinel, RedisServer, ValkeyServer};

#[test]
fn redis_answers_as_redis_cli_prints() {
    let redis = RedisServer::start();
    assert_eq!(redis.command(&["SET", "word", "tollway"]), "OK");
    assert_eq!(redis.command(&["GET", "word"]), "tollway");
    assert_eq!(redis.command(&["GET", "nothing"]), "");
    assert_eq!(redis.command(&["INCRBY", "number", "7"]), "7");
    assert_eq!(redis.command(&["MGET", "word", "number"]), "tollway\n7");
    assert!(redis.command(&["NO-SUCH-THING"]).starts_with("ERR unknown command"));
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
}

#[test]
fn redis_takes_options() {
    let redis = RedisServer::start_with(&["--requirepass", "secret"]);
    assert_eq!(redis.command(&["PING"]), "PONG");
    assert_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}", redis.port()));
    let mut stranger = TcpStream::connect(redis.addr()).unwrap();
    stranger.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"-NOAUTH");
}

#[test]
fn paused_redis_answers_after_resume() {
    let redis = RedisServer::start();
    redis.pause();
    let mut client = TcpStream::connect(redis.addr()).expect("the system takes connections for it");
    client.write_all(b"PING\r\n").unwrap();
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    client.read_exact(&mut [0; 7]).expect_err("it is paused");
    redis.resume();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 7];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn redis_comes_back_on_its_port_with_or_without_its_data() {
    let redis = RedisServer::start();
    let port = redis.port();
    redis.command(&["SET", "word", "kept"]);
    redis.restart();
    assert_eq!((redis.command(&["GET", "word"]).as_str(), redis.port()), ("kept", port));

    redis.command(&["SET", "word", "written after it was saved"]);
    redis.kill();
    TcpStream::connect(redis.addr()).expect_err("it is dead");
    redis.restart();
    assert_eq!(redis.command(&["GET", "word"]), "kept");

    redis.pause();
    redis.restart_empty();
    assert_eq!(redis.command(&["DBSIZE"]), "0");
}

#[test]
fn append_only_redis_keeps_its_data_when_killed() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    redis.command(&["SET", "word", "kept"]);
    redis.kill();
    redis.restart();
    assert_eq!(redis.command(&["GET", "word"]), "kept");
    redis.restart_empty();
    assert_eq!(redis.command(&["GET", "word"]), "");
}

#[test]
fn failed_start_shows_the_server_log() {
    let start = || RedisServer::start_with(&["--no-such-option", "1"]);
    let message = *panic::catch_unwind(start).err().expect("it cannot start").downcast::<String>().unwrap();
    assert!(message.contains("did not start") && message.contains("no-such-option"), "{message}");
}

#[test]
fn a_cluster_divides_the_keys() {
    let cluster = RedisCluster::start(3);
    assert_eq!(cluster.nodes().len(), 3);
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(cluster.node_of(key).command(&["SET", key, "here"]), "OK");
        let others = cluster.nodes().iter().filter(|node| node.port() != cluster.node_of(key).port());
        for other in others {
            let answer = other.command(&["GET", key]);
            assert!(
                answer.starts_with("MOVED") && answer.ends_with(&cluster.node_of(key).port().to_string())
            );
        }
    }
    cluster.nodes()[1].restart();
    cluster.wait_until_whole();
}

#[test]
fn sentinels_replace_a_master_that_is_gone() {
    let group = RedisSentinel::start();
    assert_eq!(group.master().port(), group.servers()[0].port());
    assert_eq!(group.master().command(&["SET", "word", "kept"]), "OK");
    assert_eq!(group.master().command(&["WAIT", "1", "10000"]), "1");
    let (first, second) = group.replace_master();
    assert_eq!(first.port(), group.servers()[0].port());
    assert_eq!(second.command(&["GET", "word"]), "kept");
    assert_eq!(second.command(&["SET", "word", "changed"]), "OK");
    first.restart();
    // A master that is silent for a while is not replaced by the other, which lost its data.
    second.pause();
    thread::sleep(Duration::from_secs(3));
    second.resume();
    group.wait_until_whole();
    assert_eq!(first.command(&["GET", "word"]), "changed");
    assert_eq!(group.master().port(), second.port());
}

#[test]
fn valkey_starts_or_says_what_to_install() {
    let started = panic::catch_unwind(ValkeyServer::start);
    assert_eq!(started.is_ok(), ValkeyServer::is_installed());
    match started {
        Ok(valkey) => assert!(valkey.command(&["INFO", "server"]).contains("valkey_version")),
        Err(panic) => assert!(panic.downcast::<String>().unwrap().contains("install it: apt-get install")),
    }
}

#[test]
fn postgres_answers_and_keeps_what_was_committed() {
    let postgres = PostgresServer::start();
    postgres.query("create table words (word text)");
    postgres.query("insert into words values ('kept'), ('also')");
    assert_eq!(postgres.query("select word, length(word) from words"), "kept|4\nalso|4");
    postgres.kill();
    TcpStream::connect(postgres.addr()).expect_err("it is dead");
    postgres.restart();
    assert_eq!(postgres.query("select count(*) from words"), "2");
    postgres.restart_empty();
    assert_eq!(postgres.query("select count(*) from pg_tables where tablename = 'words'"), "0");
}

#[test]
fn pause_stops_all_processes_of_postgres() {
    let postgres = PostgresServer::start_with(&["max_connections=17"]);
    assert_eq!(postgres.query("show max_connections"), "17");
    // A statement that is running when the pause begins is paused, too.
    postgres.query("create sequence steps");
    thread::scope(|scope| {
        let counting =
            "do $$ begin for i in 1..40 loop perform nextval('steps'), pg_sleep(0.01); end loop; end $$";
        let counter = scope.spawn(|| postgres.query(counting));
        thread::sleep(Duration::from_millis(100));
        postgres.pause();
        let (done, finished) = mpsc::channel();
        scope.spawn(move || done.send(counter.join()));
        finished.recv_timeout(Duration::from_millis(800)).expect_err("it is paused");
        postgres.resume();
        finished.recv_timeout(Duration::from_secs(10)).expect("it goes on").unwrap();
    });
    assert_eq!(postgres.query("select last_value from steps"), "40");
}

#[test]
fn dropped_servers_leave_no_processes() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let folders = [redis.folder().to_owned(), postgres.folder().to_owned()];
    assert!(folders.iter().all(|folder| !processes_in(folder).is_empty()));
    assert!(processes_in(&folders[1]).len() > 3, "Postgres is several processes");
    let panicked = panic::catch_unwind(move || {
        redis.pause();
        postgres.pause();
        let _servers = (redis, postgres);
        panic!("as a failed test does");
    });
    assert!(panicked.is_err());
    expect_nothing_left(&folders);
}

#[test]
fn killed_servers_leave_no_files() {
    let (redis, postgres) = (RedisServer::start(), PostgresServer::start());
    let folders = [redis.folder().to_owned(), postgres.folder().to_owned()];
    redis.kill();
    postgres.pause();
    postgres.kill();
    assert!(folders.iter().all(|folder| processes_in(folder).is_empty()));
    drop((redis, postgres));
    expect_nothing_left(&folders);
}

/// Set for the child process that runs [`victim`].
const VICTIM: &str = "TOLLWAY_TESTKIT_VICTIM";

#[test]
fn servers_end_with_a_killed_test_process() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env(VICTIM, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let folders: Vec<PathBuf> =
        lines.filter_map(|line| Some(line.split_once("folder ")?.1.into())).take(6).collect();
    assert_eq!(folders.len(), 6);
    assert!(folders.iter().all(|folder| !processes_in(folder).is_empty()));
    victim.kill().unwrap();
    victim.wait().unwrap();
    expect_nothing_left(&folders);
}

#[test]
#[ignore = "a part of servers_end_with_a_killed_test_process, which runs and kills it"]
fn victim() {
    assert!(std::env::var_os(VICTIM).is_some(), "this is to be run by another test");
    let (redis, postgres) = (RedisServer::shared(), PostgresServer::shared());
    let paused = PostgresServer::start();
    paused.pause();
    let cluster = RedisCluster::shared();
    let nodes = cluster.nodes().iter().map(RedisServer::folder);
    let mut output = stdout();
    for folder in [redis.folder(), postgres.folder(), paused.folder()].into_iter().chain(nodes) {
        writeln!(output, "\nfolder {}", folder.display()).unwrap();
    }
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn shared_servers_are_one_each() {
    assert_eq!(RedisServer::shared().port(), RedisServer::shared().port());
    assert_eq!(PostgresServer::shared().query("select 1"), "1");
    let ports: Vec<SocketAddr> = vec![RedisServer::shared().addr(), PostgresServer::shared().addr()];
    assert_ne!(ports[0], ports[1]);
}

/// The processes that run in this folder, as far as the system shows them.
fn processes_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("this test needs /proc").flatten();
    let runs_there = |pid: &str| {
        let place = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        place.starts_with(folder) || place.to_string_lossy().starts_with(&format!("{} ", folder.display()))
    };
    entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|pid| runs_there(pid)).collect()
}

/// Waits a moment: processes need time to end after the signal.
fn expect_nothing_left(folders: &[PathBuf]) {
    for folder in folders {
        let left = || folder.exists() || !processes_in(folder).is_empty();
        let mut tries = 0;
        while left() && tries < 1_500 {
            thread::sleep(Duration::from_millis(10));
            tries += 1;
        }
        assert!(!left(), "{} is left, with the processes {:?}", folder.display(), processes_in(folder));
    }
}
