//! What is sent: addresses, headers, bodies.

use tollway::Limiter;
use tollway_client::{ApiClient, CallFailure, ClientError};

use crate::{client, limiter, vendor};

const PLAIN: &str = "limits = [\"1000 / second\"]";

/// D2, D3: a client is one line away, and a call three.
#[tokio::test]
async fn a_call_is_sent_and_answered() {
    let vendor = vendor(&["100 / second"], "http").await;
    let client = client(&vendor.url(), PLAIN);
    let response = client.get("/v1/users").query(&[("page", "2")]).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.url().as_str(), format!("{}/v1/users?page=2", vendor.url()));
    assert!(!response.bytes().await.unwrap().is_empty());
    assert_eq!(vendor.counts().accepted, 1);
}

#[tokio::test]
async fn paths_begin_at_the_base_and_may_repeat_it() {
    let vendor = vendor(&["100 / second"], "http").await;
    let client = client(&format!("{}/v1", vendor.url()), PLAIN);
    for path in ["/users", "users", "/v1/users", &format!("{}/v1/users", vendor.url())] {
        let response = client.get(path).send().await.unwrap();
        assert_eq!(response.url().path(), "/v1/users", "{path}");
    }
}

/// Headers of the config may be secrets.
#[tokio::test]
async fn a_url_of_another_origin_is_refused() {
    let client = client("http://127.0.0.1:1/v1", PLAIN);
    let error = client.get("http://127.0.0.1:2/v1/users").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Request(_)), "{error}");
    assert!(error.to_string().contains("is not at http://127.0.0.1:1"), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_missing_variable_of_a_header_is_named() {
    let keys = format!("{PLAIN}\nheaders = {{ authorization = {{ env = \"TOLLWAY_TEST_NO_SUCH_TOKEN\" }} }}");
    let error = client("http://127.0.0.1:1", &keys).get("/").send().await.unwrap_err();
    assert!(error.to_string().contains("TOLLWAY_TEST_NO_SUCH_TOKEN"), "{error}");
}

#[tokio::test]
async fn a_vendor_that_is_away_is_an_error_and_gives_the_units_back() {
    let limiter = limiter("http://127.0.0.1:1", "limits = [\"5 / hour\"]");
    let client = ApiClient::of(&limiter, "test").unwrap();
    let error = client.get("/").send().await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Send(_)), "{error}");
    assert_eq!((error.attempts.len(), error.attempts[0].status), (1, None));
    // In the background.
    while limiter.usage("test").await.unwrap().limits[0].used > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn an_unknown_api_says_what_may_be_meant() {
    let limiter = Limiter::builder().build();
    let error = ApiClient::of(&limiter, "notio").unwrap_err();
    assert!(
        matches!(&error, ClientError::UnknownApi { meant: Some(meant), .. } if meant == "notion"),
        "{error}"
    );
}

/// Shopify has an address for each customer.
#[tokio::test]
async fn a_base_url_with_a_part_to_fill_in_is_refused() {
    let profile = tollway::config::Api::profile("shopify").unwrap();
    let limiter = Limiter::builder().with_api(profile).unwrap().build();
    let error = ApiClient::of(&limiter, "shopify").unwrap_err();
    assert!(error.to_string().contains("[apis.shopify]"), "{error}");
}

/// D3: without a config file, profiles are there.
#[tokio::test]
async fn a_profile_needs_no_config() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollway.toml");
    std::fs::write(&file, "[policies.other]\nlimits = [\"1 / second\"]\n").unwrap();
    let client = ApiClient::builder("notion").config(&file).build().unwrap();
    assert_eq!(client.limiter().api().base_url(), "https://api.notion.com/v1");
    assert!(client.limiter().limiter().policies().iter().any(|policy| policy.name().as_str() == "other"));
}

/// D3: a section of the file is the profile with the keys of the file, also for apis with slots; a policy of the same name
/// is used without a section.
#[tokio::test]
async fn a_section_or_a_policy_of_the_file_goes_before_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollway.toml");
    for (api, text) in [
        ("gemini", "[apis.gemini]\nbase_url = \"http://127.0.0.1:1\"\nlimits = [\"7 requests / hour\"]\n"),
        ("github", "[apis.github]\nlimits = [\"7 requests / hour\"]\n"),
        ("notion", "[policies.notion]\nlimits = [\"7 requests / hour\"]\n"),
    ] {
        std::fs::write(&file, text).unwrap();
        let client =
            ApiClient::builder(api).config(&file).build().unwrap_or_else(|error| panic!("{api}: {error}"));
        let usage = client.limiter().limiter().usage(api).await.unwrap();
        assert_eq!(usage.limits[0].amount, 7, "{api}");
    }
}

/// A header of the call replaces that of the config.
#[tokio::test]
async fn a_header_of_the_call_goes_before_the_configs() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 4_096];
        let read = connection.read(&mut request).unwrap();
        connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        String::from_utf8_lossy(&request[..read]).to_lowercase()
    });
    let keys = format!("{PLAIN}\nheaders = {{ authorization = \"Bearer of-config\", x-kept = \"yes\" }}");
    client(&url, &keys).get("/").bearer_auth("of-call").send().await.unwrap();
    let request = server.join().unwrap();
    assert!(
        request.contains("authorization: bearer of-call") && request.contains("x-kept: yes"),
        "{request}"
    );
    assert!(!request.contains("of-config"), "{request}");
}

/// A profile that the program brought stays when the file changes.
#[tokio::test]
async fn a_profile_survives_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollway.toml");
    std::fs::write(&file, "[policies.other]\nlimits = [\"1 / second\"]\n").unwrap();
    let client = ApiClient::builder("notion").config(&file).build().unwrap();
    std::fs::write(&file, "[policies.another]\nlimits = [\"1 / second\"]\n").unwrap();
    while client.limiter().limiter().reload_status().reloads == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(client.limiter().snapshot().await.unwrap().current_rate.is_some());
    assert!(client.limiter().limiter().policy("another").is_ok());
}
