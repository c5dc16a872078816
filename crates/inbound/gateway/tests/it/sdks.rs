//! Programs in Python, with no line changed: HTTP clients, and the SDKs of OpenAI and Anthropic.

use tollway_testkit::servers::python_tool;
use tollway_vendor::server::{VendorServer, VendorSettings};

use crate::running::gateway;

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
