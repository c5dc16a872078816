//! Node's package `openai`, with no line changed. `scripts/install-node-tools` installs it; `./test --full` runs this.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the other tests of the gateway")]
#[path = "it/running.rs"]
mod running;

use std::path::PathBuf;
use std::process::Command;

use tollway_vendor::server::{VendorServer, VendorSettings};

use running::gateway;

/// Where `scripts/install-node-tools` installs packages.
fn packages() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    let folder = cache.join("tollway/node");
    assert!(folder.join("node_modules/openai").is_dir(), "run scripts/install-node-tools");
    folder
}

/// B8: answers, streams, other paths, and a refusal that the SDK does not retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_openai_calls_through_the_gateway() {
    let vendor = VendorServer::start(VendorSettings::new(["1000 / minute"]).unwrap()).await.unwrap();
    let config = format!(
        "[apis.openai]\nbase_url = \"{}/v1\"\nrate = \"off\"\nlimits = [\"1000 / minute\", \"tokens: 10M tokens / hour from first call\"]\n",
        vendor.url()
    );
    let gateway = gateway(&config).await;
    let mut node = Command::new("node");
    node.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node.mjs")).arg(packages());
    node.env("OPENAI_BASE_URL", format!("http://{}/openai", gateway.address));
    let ran = tokio::task::spawn_blocking(move || node.output()).await.unwrap().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = String::from_utf8_lossy(&ran.stdout);
    let expected = format!(
        "openai word word word word word word 6\nopenai stream {}\npost /v1/echo%2Fpath {}\nrefused 429 tollway; policy=openai; limit=tokens false\n",
        "word".repeat(6),
        "{\"text\":\"\"}".len() + 5_000
    );
    assert_eq!(said, expected);
    assert_eq!(vendor.counts().refused, 0);
}
