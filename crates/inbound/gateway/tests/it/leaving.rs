//! A caller that leaves takes its call with it, in every phase.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::running::{LONG, Running, api, gateway};
use crate::vendor::RecordingVendor;

async fn begin(gateway: &Running, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

/// While it waits, its place is given back and the vendor sees nothing.
#[tokio::test]
async fn a_caller_that_leaves_while_it_waits_gives_its_place_back() {
    let vendor = RecordingVendor::start().await;
    let keys = "rate = \"off\"\nlimits = [\"1 / 20s paced\"]\n[apis.test.gateway]\naccount = \"one\"";
    let gateway = gateway(&api(vendor.address, keys)).await;
    assert_eq!(gateway.get("/test/a", "").await.status, 200);
    let frontier = async || {
        let denied = gateway.limiter.try_take("test").preview().await.unwrap();
        denied.map_or(0, |denied| denied.retry_after().as_secs())
    };
    let waiting = begin(&gateway, "/test/waiting").await;
    let booked = async {
        while frontier().await < 20 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await
        }
    };
    tokio::time::timeout(LONG, booked).await.unwrap();
    drop(waiting);
    let back = async {
        while frontier().await >= 20 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await
        }
    };
    tokio::time::timeout(LONG, back).await.unwrap();
    assert_eq!(vendor.requests().len(), 1);
}

/// Before the first byte of the answer, the vendor's connection is closed.
#[tokio::test]
async fn a_caller_that_leaves_before_the_answer_closes_the_vendors_connection() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, "rate = \"off\"\nlimits = [\"1000 / second\"]")).await;
    let waiting = begin(&gateway, "/test/hang").await;
    vendor.wait_for(1).await;
    drop(waiting);
    vendor.wait_for_close().await;
}

/// In the stream, too: a language model would go on generating.
#[tokio::test]
async fn a_caller_that_leaves_a_stream_closes_the_vendors_connection() {
    let vendor = RecordingVendor::start().await;
    let gateway = gateway(&api(vendor.address, "rate = \"off\"\nlimits = [\"1000 / second\"]")).await;
    let events = vendor.events();
    let mut stream = begin(&gateway, "/test/events").await;
    events.send("data: first\n\n".to_owned()).unwrap();
    let mut seen = String::new();
    while !seen.contains("first") {
        let mut bytes = [0; 1_024];
        let read = stream.read(&mut bytes).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    drop(stream);
    vendor.wait_for_close().await;
}

/// A cut stream of Anthropic's has told its input at the beginning: that stays spent, and no more than that is given back.
#[tokio::test]
async fn a_cut_stream_settles_with_what_was_seen() {
    let vendor = RecordingVendor::start().await;
    let config = format!(
        "{}[policies.test]\nlimits = [\"100000 tokens / hour from first call\"]\n",
        api(
            vendor.address,
            "rate = \"off\"\npolicy = \"test\"\ncost = { tokens = 5000 }\n[apis.test.gateway]\naccount = \"one\""
        )
    );
    let gateway = gateway(&config).await;
    let used = async || gateway.limiter.usage("test").await.unwrap().limits[0].used;
    let events = vendor.events();
    let mut stream = begin(&gateway, "/test/events").await;
    let start = "event: message_start\ndata: {\"message\": {\"usage\": {\"input_tokens\": 700, \"output_tokens\": 1}}}\n\n";
    let delta = "event: message_delta\ndata: {\"usage\": {\"output_tokens\": 55}}\n\n";
    events.send(format!("{start}{delta}")).unwrap();
    let mut seen = String::new();
    while !seen.contains("55") {
        let mut bytes = [0; 1_024];
        let read = stream.read(&mut bytes).await.unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert_eq!(used().await, 5_000);
    drop(stream);
    let settled = async {
        while used().await != 755 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await
        }
    };
    tokio::time::timeout(LONG, settled).await.unwrap();
}
