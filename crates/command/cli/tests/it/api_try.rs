//! `tollway api try` against a vendor on this machine.

use std::time::Duration;

use serde_json::Value;
use tollway::Span;
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::home::{Home, golden, mask_times};

/// A vendor on a thread of its own. It stops with the test.
struct Vendor {
    server: VendorServer,
    _runtime: tokio::runtime::Runtime,
}

impl Vendor {
    fn start(limits: &[&str], dialect: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = VendorSettings::new(limits.iter().copied()).unwrap().dialect(dialect).unwrap();
        let server = runtime.block_on(VendorServer::start(settings)).unwrap();
        Self { server, _runtime: runtime }
    }

    /// A home whose api `archive` is this vendor.
    fn home(&self, keys: &str) -> Home {
        Home::with_config(&format!("[apis.archive]\nbase_url = \"{}/v1\"\n{keys}", self.server.url()))
    }

    /// What can be compared: without the port and without times.
    fn masked(&self, text: &str) -> String {
        mask_times(&text.replace(&self.server.url(), "http://VENDOR"))
    }
}

fn json(home: &Home, arguments: &[&str]) -> (i32, Value) {
    let (exit, answer, beside) = home.run(arguments);
    let answer = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}{beside}"));
    (exit, answer)
}

/// D2, D4: attempts, what the vendor says about its limits, the rate afterwards, the body.
#[test]
fn shows_the_call_and_what_the_vendor_says() {
    let vendor = Vendor::start(&["100 / day"], "x-ratelimit");
    let home = vendor.home("rate = { initial = 2.0, min = 0.3, max = 3.5, increase_step = 0.1, decrease_factor = 0.5 }\ndialect = \"x-ratelimit\"");
    let (exit, answer, beside) = home.run(&["api", "try", "archive", "/v1/users?key=hidden"]);
    golden("api_try.txt", &vendor.masked(&answer));
    assert_eq!((exit, beside.as_str()), (0, ""));
    let (exit, answer) = json(&home, &["api", "try", "archive", "/users", "--json"]);
    assert_eq!(exit, 0);
    assert_eq!((&answer["status"], &answer["attempts"][0]["status"]), (&200.into(), &200.into()));
    assert_eq!((&answer["quotas"][0]["limit"], &answer["quotas"][0]["remaining"]), (&100.into(), &98.into()));
    assert!(answer["rate"]["current"].as_f64().unwrap() > 2.0, "{answer}");
    assert_eq!(vendor.server.counts().accepted, 2);
}

/// D2: the vendor's refusal is exit code 75, and every attempt is shown.
#[test]
fn refusal_is_shown_and_is_its_own_exit_code() {
    let vendor = Vendor::start(&["1 / day"], "notion");
    let home = vendor.home("limits = [\"1000 requests / second\"]\nrate = \"off\"\ndialect = \"notion\"");
    assert_eq!(home.run(&["api", "try", "archive", "/v1/users"]).0, 0);
    let (exit, answer, beside) = home.run(&["api", "try", "archive", "/v1/users", "--max-retries", "0"]);
    golden("api_try_refused.txt", &vendor.masked(&answer));
    assert_eq!(exit, 75, "{beside}");
    assert!(beside.contains("the vendor refused it as often as it may be sent"), "{beside}");
    // The hold is in the store: the next command is not sent at all.
    let (exit, answer) = json(&home, &["api", "try", "archive", "/v1/users", "--max-time", "1s", "--json"]);
    assert_eq!((exit, &answer["attempts"]), (75, &Value::Array(Vec::new())));
    assert!(answer["rate"]["cooldown_ms"].as_u64().unwrap() > 0, "{answer}");
    assert_eq!((vendor.server.counts().accepted, vendor.server.counts().refused), (1, 1));
    // The config's limit had granted the call.
    assert_eq!(json(&home, &["incidents", "--json"]).1["found"], 1);
}

/// Neither headers nor data nor the query are printed; the body of a `@FILE` is sent.
#[test]
fn secrets_are_sent_and_not_printed() {
    let vendor = Vendor::start(&["100 / second"], "http");
    let home = vendor.home("limits = [\"10 requests / second\"]\nheaders = { authorization = { env = \"ARCHIVE_TOKEN\", prefix = \"Bearer \" } }");
    home.write("data.json", "{\"hidden\": 1}");
    let call = [
        "api",
        "try",
        "archive",
        "PUT",
        "/v1/keys?k=hidden",
        "-H",
        "x-api-key: hidden",
        "--data",
        "@data.json",
    ];
    let missing = home.run(&call);
    assert!(missing.0 == 78 && missing.2.contains("ARCHIVE_TOKEN"), "{missing:?}");
    for json in [&[][..], &["--json"]] {
        let mut command = home.tollway(&call);
        let output = command.args(json).env("ARCHIVE_TOKEN", "hidden").output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(output.status.success() && !text.contains("hidden"), "{text}");
        assert!(
            text.contains("PUT") && text.contains("received_bytes\\\":13")
                || text.contains("\"received_bytes\":13"),
            "{text}"
        );
    }
}

#[test]
fn another_address_needs_no_config() {
    let vendor = Vendor::start(&["100 / second"], "notion");
    let home = Home::new();
    let (exit, answer) =
        json(&home, &["api", "try", "notion", "/v1/users", "--base-url", &vendor.server.url(), "--json"]);
    assert_eq!((exit, &answer["dialect"], &answer["api"]), (0, &"notion".into(), &"notion".into()));
    let (exit, _, beside) = home.run(&["api", "try", "notion", "/v1/users", "--base-url", "ftp://a"]);
    assert!(exit == 2 && beside.contains("must begin with"), "{beside}");
    let (exit, _, beside) = home.run(&["api", "try", "shopify", "/"]);
    assert!(exit == 78 && beside.contains("--base-url"), "{beside}");
}

/// An answer that is no refusal is passed on; its status decides the exit code.
#[test]
fn errors_of_the_vendor_exit_with_1() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut settings = VendorSettings::new(["100 / second"]).unwrap();
    settings.terms.errors = 1_000;
    settings.terms.latency = (Span::ZERO, Duration::from_millis(1).into());
    let server = runtime.block_on(VendorServer::start(settings)).unwrap();
    let home = Home::with_config(&format!(
        "[apis.archive]\nbase_url = \"{}\"\nlimits = [\"9 / second\"]",
        server.url()
    ));
    let (exit, answer) = json(&home, &["api", "try", "archive", "/", "--json"]);
    assert_eq!((exit, &answer["status"], answer["attempts"].as_array().unwrap().len()), (1, &500.into(), 1));
    drop(server);
    let (exit, answer, beside) = home.run(&["api", "try", "archive", "/"]);
    assert!(exit == 1 && answer.contains("no answer"), "{answer}{beside}");
}

/// D1: what a run knows reaches the store before it ends, so the next one does not wait for a cap of a minute. A vendor that
/// is away uses up nothing, either.
#[test]
fn runs_do_not_wait_for_what_earlier_ones_knew() {
    let vendor = Vendor::start(&["1000 / second"], "http");
    let home = vendor.home("rate = \"auto\"\nmax_time = \"20s\"");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for run in 0..8 {
        let away = format!("http://{closed}");
        let (exit, _, beside) = home.run(&["api", "try", "archive", "/users", "--base-url", &away]);
        assert_eq!(exit, 1, "{run}: {beside}");
    }
    for run in 0..8 {
        let (exit, _, beside) = home.run(&["api", "try", "archive", "/users"]);
        assert_eq!(exit, 0, "{run}: {beside}");
    }
    assert_eq!(vendor.server.counts().accepted, 8);
}

/// B5: what the vendor says is left is shown by another process, beside what is kept of it.
#[test]
fn usage_shows_what_the_vendor_says_is_left() {
    let vendor = Vendor::start(&["5000 / day"], "github");
    let home = vendor.home("rate = \"auto\"\nkeep = \"10 %\"\ndialect = \"github\"");
    let (exit, _, beside) = home.run(&["api", "try", "archive", "/users"]);
    assert_eq!((exit, beside.as_str()), (0, ""));
    let (exit, answer, beside) = home.run(&["usage", "archive"]);
    assert_eq!((exit, beside.as_str()), (0, ""));
    golden("usage_vendor_quotas.txt", &vendor.masked(&answer));
    let (_, answer) = json(&home, &["usage", "archive", "--json"]);
    let quota = &answer["policies"][0]["vendor_quotas"][0];
    assert_eq!(
        (&quota["limit"], &quota["remaining"], &quota["kept"]),
        (&5_000.into(), &4_999.into(), &500.into())
    );
    assert!(quota["resets_at"].is_string(), "{answer}");
}
