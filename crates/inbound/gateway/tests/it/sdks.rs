//! Programs in other languages, with no line changed: curl, Python's HTTP clients, and the SDKs of OpenAI and Anthropic.

use tollway_testkit::servers::python_tool;
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::running::{api, gateway};
use crate::vendor::RecordingVendor;

/// B8: right path and body; streams; and an SDK that is told not to retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn python_programs_call_through_the_gateway() {
    let vendor = VendorServer::start(VendorSettings::new(["1000 / minute"]).unwrap()).await.unwrap();
    let url = vendor.url();
    let config = format!(
        "[apis.openai]\nbase_url = \"{url}/v1\"\nrate = \"off\"\nlimits = [\"1000 / minute\", \"tokens: 10M tokens / hour from first call\"]\n\
         [apis.anthropic]\nbase_url = \"{url}/v1\"\nrate = \"off\"\nlimits = [\"1000 / minute\"]\n"
    );
    let gateway = gateway(&config).await;
    let address = format!("http://{}", gateway.address);
    let mut python = std::process::Command::new(python_tool("python3"));
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdks.py")).arg(&address);
    python
        .env("OPENAI_BASE_URL", format!("{address}/openai"))
        .env("ANTHROPIC_BASE_URL", format!("{address}/anthropic"));
    let ran = tokio::task::spawn_blocking(move || python.output()).await.unwrap().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout);
    let (six, streamed) = ("word word word word word word", "word".repeat(6));
    let mut lines = said.lines();
    for expected in [
        "requests 200 /v1/echo%2Fpath 5000".to_owned(),
        "httpx 200 /v1/upload 3000".to_owned(),
        format!("openai {six} 6"),
        format!("openai stream {streamed}"),
        format!("anthropic {six} 6"),
        format!("anthropic stream {streamed}"),
        "refused tollway; policy=openai; limit=tokens false".to_owned(),
    ] {
        assert_eq!(lines.next().map(str::trim), Some(expected.as_str()), "{said}");
    }
    assert_eq!(vendor.counts().refused, 0);
}

/// B8: path, query, `Host` and the bytes of the body, as curl sends them; and a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn curl_calls_through_the_gateway() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, "rate = \"off\"\nlimits = [\"1000 / second\"]")).await;
    let run = async |arguments: &[&str], path: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]).args(arguments);
        curl.arg(format!("http://{}/test/{path}", gateway.address));
        let ran = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let body = "{\"a\": \"\u{e4} &%20\"}";
    assert_eq!(
        run(&["--data-binary", body, "--header", "authorization: Bearer key"], "a%2Fb?q=1%202&r=%41").await,
        "hello"
    );
    let request = vendor.requests().pop().unwrap();
    assert!(request.starts_with("POST /v1/a%2Fb?q=1%202&r=%41 HTTP/1.1\r\n"), "{request}");
    for part in [format!("host: {}\r\n", vendor.address), "authorization: Bearer key\r\n".to_owned()] {
        assert!(request.contains(&part), "{part}: {request}");
    }
    assert!(request.ends_with(&format!("\r\n\r\n{body}")), "{request}");
    let events = vendor.events();
    (0..3).for_each(|number| events.send(format!("data: {number}\n\n")).unwrap());
    drop(events);
    assert_eq!(run(&["--no-buffer"], "events").await, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}
