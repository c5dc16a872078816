//! `tollway gateway` as a program: its variables, its start and end, and many processes behind two of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollway::{Clock, Span, Timestamp};
use tollway_memory::WallClock;
use tollway_testkit::servers::RedisServer;
use tollway_vendor::Outcome;
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::home::Home;

/// A caller's key, which no log has.
const SECRET: &str = "sk-0123456789";

/// A running gateway, killed when dropped.
struct Running {
    process: Child,
    lines: Vec<String>,
    address: String,
}

impl Running {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollway"));
        command.current_dir(home.path()).env("HOME", home.path());
        command.env_remove("XDG_STATE_HOME").env_remove("TOLLWAY_CONFIG").env_remove("TOLLWAY_LOG_LEVEL");
        command.args(["gateway", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut lines = Vec::new();
        // The variables come last, and the output stays open.
        while !lines.last().is_some_and(|line: &String| line.starts_with("export ")) {
            lines.push(said.next().unwrap_or_else(|| {
                let mut log = String::new();
                process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
                panic!("{log}")
            }));
        }
        let (_, address) = lines[0].split_once("http://").unwrap();
        let address = address.to_owned();
        Self { process, lines, address }
    }

    fn get(&self, path: &str) -> String {
        get(&self.address, path)
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let headers = format!("host: localhost\r\nconnection: close\r\nauthorization: Bearer {SECRET}\r\n");
    write!(stream, "GET {path}?key={SECRET} HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn env_prints_the_variables_for_a_shell() {
    let home = Home::new();
    let (exit, said, _) = home.run(&["gateway", "env", "openai", "anthropic"]);
    let expected = "export OPENAI_BASE_URL=http://127.0.0.1:4000/openai\nexport ANTHROPIC_BASE_URL=http://127.0.0.1:4000/anthropic\n";
    assert_eq!((exit, said.as_str()), (0, expected));
    let home = Home::with_config(
        "[gateway]\nlisten = \"0.0.0.0:4100\"\ntoken = \"env:T\"\n[apis.my-llm]\nbase_url = \"http://127.0.0.1:1\"\nrate = \"auto\"\n",
    );
    let (exit, said, _) = home.run(&["gateway", "env", "my-llm", "--json"]);
    assert_eq!((exit, said.trim()), (0, "{\"MY_LLM_BASE_URL\":\"http://127.0.0.1:4100/my-llm\"}"));
    let (exit, _, error) = home.run(&["gateway", "env", "openia"]);
    assert!(exit == 66 && error.contains("did you mean \"openai\"?"), "{exit} {error}");
}

#[test]
fn a_gateway_without_apis_or_with_an_open_credential_does_not_start() {
    let home = Home::new();
    let (exit, _, error) = home.run(&["gateway"]);
    assert!(exit == 78 && error.contains("the config has no api"), "{exit} {error}");
    let home = Home::with_config(
        "[gateway]\nlisten = \"0.0.0.0:0\"\n[apis.openai]\nheaders = { authorization = { env = \"KEY\" } }\n",
    );
    let (exit, _, error) = home.run(&["gateway"]);
    assert!(exit == 78 && error.contains("set `token` in [gateway]"), "{exit} {error}");
}

/// B8: the output has a variable for each api; a changed file applies; a signal ends it. The log has no caller's key, also if
/// calls fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_gateway_serves_every_api_until_a_signal() {
    let vendor = VendorServer::start(VendorSettings::new(["1000 / minute"]).unwrap()).await.unwrap();
    let api = |name: &str, limit: &str| {
        format!("[apis.{name}]\nbase_url = \"{}\"\nrate = \"off\"\nlimits = [\"{limit}\"]\n", vendor.url())
    };
    let home = Home::with_config(&api("one", "1000 / minute"));
    let mut running = Running::start(&home, &["--log-level", "debug", "--admin", "127.0.0.1:0"]);
    let admin = running.lines[1].strip_prefix("admin     http://").unwrap().to_owned();
    assert_eq!(running.lines[2], "store     memory:");
    assert_eq!(running.lines[3], format!("export ONE_BASE_URL=http://{}/one", running.address));
    assert!(get(&admin, "/ready").starts_with("HTTP/1.1 200"), "{}", get(&admin, "/ready"));
    assert!(running.get("/one/a").starts_with("HTTP/1.1 200"), "{}", running.get("/one/a"));
    assert!(running.get("/two/a").starts_with("HTTP/1.1 404"));
    home.write("tollway.toml", api("one", "1000 / minute") + &api("two", "1000 / minute"));
    while !running.get("/two/a").starts_with("HTTP/1.1 200") {
        std::thread::sleep(Duration::from_millis(50));
    }
    vendor.stop().await;
    assert!(running.get("/two/a").starts_with("HTTP/1.1 502"));
    let told = get(&admin, "/metrics");
    assert!(told.contains(r#"tollway_gateway_calls_total{api="two",outcome="failed"} 1"#), "{told}");
    running.signal("-TERM");
    assert_eq!(running.process.wait().unwrap().code(), Some(0));
    let mut log = String::new();
    running.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("a call got no answer") && !log.contains(SECRET), "{log}");
}

/// How many Python processes call, in windows of 6 s: 200 a minute, ten times as fast.
const PROCESSES: usize = 50;
const WINDOW: Span = Span::from_secs(6);
const LIMIT: u64 = 200;

/// Of what the limit allows, the processes get at least this share, in percent. Only asked of a machine without other work.
const SHARE: u64 = 97;

/// Calls one of two gateways until a time, the other one if it does not answer, and says how many calls failed.
const CALLER: &str = r#"
import http.client, sys, time
gateways, until, failed = sys.argv[1].split(","), float(sys.argv[2]), 0
place = int(sys.argv[3]) % len(gateways)
while time.time() < until:
    connection = http.client.HTTPConnection(gateways[place], timeout=60)
    try:
        while time.time() < until:
            connection.request("GET", "/vendor/a")
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (200, 429):
                failed += 1
                print(place, time.time(), answer.status, file=sys.stderr)
    except (OSError, http.client.HTTPException) as error:
        failed += 1
        print(place, time.time(), repr(error), file=sys.stderr)
        place = (place + 1) % len(gateways)
print(failed)
"#;

/// B8, A2: fifty processes behind two gateways on one Redis, of which one is killed: no call is refused by the vendor, none is
/// lost but those in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_processes_fill_a_vendors_windows_through_two_gateways() {
    let windows: u64 = std::env::var("TOLLWAY_WINDOWS").map_or(2, |windows| windows.parse().unwrap());
    let redis = RedisServer::start();
    let mut settings = VendorSettings::new(["200 requests / 6 seconds"]).unwrap();
    settings.terms.latency = (Span::from_millis(20), Span::from_millis(20));
    let vendor = VendorServer::start(settings).await.unwrap();
    let home = Home::with_config(&format!(
        "[store]\nurl = \"{}\"\n[apis.vendor]\nbase_url = \"{}\"\nrate = \"off\"\nlimits = [\"200 requests / 6 seconds\"]\n",
        redis.url(),
        vendor.url()
    ));
    let (killed, stays) = (Running::start(&home, &[]), Running::start(&home, &[]));
    let gateways = format!("{},{}", killed.address, stays.address);
    // The first windows are for processes to start in.
    let into = WallClock.now().as_micros() % WINDOW.as_micros();
    let from = WallClock.now().plus(WINDOW.times(3)).minus(Span::from_micros(into));
    let to = from.plus(WINDOW.times(windows));
    let until = (to.as_micros() as f64 / 1e6).to_string();
    let callers: Vec<Child> = (0..PROCESSES)
        .map(|number| {
            let mut python = Command::new("python3");
            python.args(["-c", CALLER, &gateways, &until, &number.to_string()]);
            python.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    // In the middle of a window.
    sleep_until(from.plus(WINDOW.times(windows / 2)).plus(Span::from_secs(3))).await;
    drop(killed);
    sleep_until(to).await;
    let accepted = u64::try_from(vendor.count_between(Outcome::Accepted, from, to)).unwrap();
    let failed: u64 = callers
        .into_iter()
        .map(|caller| {
            let ran = caller.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
            eprint!("{}", String::from_utf8_lossy(&ran.stderr));
            said.parse::<u64>().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ran.stderr)))
        })
        .sum();
    let refused = vendor.counts().refused;
    eprintln!("{accepted} of {} accepted, {refused} refused, {failed} failed", LIMIT * windows);
    assert_eq!(refused, 0);
    // A process has one call in flight.
    assert!(failed <= u64::try_from(PROCESSES).unwrap(), "{failed} calls failed");
    if windows >= 10 {
        assert!(accepted * 100 >= LIMIT * windows * SHARE, "{accepted} calls");
    }
}

async fn sleep_until(time: Timestamp) {
    tokio::time::sleep(time.since(WallClock.now()).into()).await;
}
