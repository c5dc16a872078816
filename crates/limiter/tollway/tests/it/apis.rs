//! `[apis]` of the config, profiles, and the apis of a limiter.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use tollway::config::{Api, ApiRate, FieldOrigin};
use tollway::core::controller::Keep;
use tollway::{Config, Limiter, Span};

const KEYS: &str = include_str!("../config/api_keys.toml");

/// The limits that are made of rates: calls in a million seconds.
const AUTO: &str = "3 requests / second adaptive";
const NOTION: &str = "2 requests / second adaptive";
const SLACK: &str = "3 requests / 2 seconds adaptive";
const ONE: &str = "1 request / second adaptive";

fn config() -> Config {
    Config::parse(KEYS).unwrap_or_else(|error| panic!("{error}"))
}

fn api(name: &str) -> Arc<Api> {
    Arc::clone(config().api(name).unwrap_or_else(|| panic!("no api {name}")))
}

fn limits(config: &Config, policy: &str) -> Vec<String> {
    let policy = config.policy(policy).unwrap_or_else(|| panic!("no policy {policy}"));
    policy.limits().iter().map(ToString::to_string).collect()
}

fn settings(api: &Api) -> Option<[String; 5]> {
    let rate = api.rate()?.settings()?;
    let settings = [rate.initial(), rate.min(), rate.max(), rate.increase_step(), rate.decrease_factor()];
    Some(settings.map(|setting| setting.to_string()))
}

/// D2, D3, D5: every key of an api reaches the client, with its own policy in the config.
#[test]
fn every_key_is_kept() {
    let api = api("every");
    assert_eq!(api.base_url(), "https://every.example/v1");
    assert_eq!(api.policy().map(|name| name.as_str()), Some("every"));
    assert_eq!(
        limits(&config(), "every"),
        ["100 requests / minute paced", "250000 tokens / minute bucket", AUTO]
    );
    assert_eq!(limits(&config(), "every.concurrency"), ["8 concurrent"]);
    assert_eq!((api.rate(), api.concurrency()), (Some(ApiRate::Auto), Some(8)));
    assert_eq!(Some(api.keep()), Keep::percent(10));
    assert_eq!(
        (api.dialect_name(), api.dialect().map(|dialect| dialect.name())),
        (Some("adobe"), Some("http"))
    );
    assert_eq!((api.backoff_codes(), api.max_retries()), (&[429, 503][..], 0));
    assert_eq!((api.max_time(), api.timeout()), (Span::from_mins(2), Span::from_secs(10)));
    assert_eq!(
        (api.documented(), api.documented_at()),
        (Some("100 requests a minute"), Some("https://every.example/limits"))
    );
    let costs: Vec<_> =
        api.cost().iter().map(|cost| (cost.unit().as_str(), cost.estimate().of(1_000))).collect();
    assert_eq!(costs, [("files", 1), ("tokens", 750)]);
    assert_eq!(api.profile_name(), None);
    assert!(Api::KEYS.iter().all(|key| *key == "policy" || api.origin(key) == FieldOrigin::Config));
}

/// D5: an endpoint has a policy or a cost of its own; the first that matches counts.
#[test]
fn endpoints_are_found_by_method_and_path() {
    let api = api("every");
    let policy = |method, path| api.endpoint(method, path).and_then(|endpoint| endpoint.policy());
    assert_eq!(policy("POST", "/v1/search").map(|name| name.as_str()), Some("search"));
    assert_eq!(policy("GET", "/v1/search"), None);
    let files = api.endpoint("PUT", "/v1/files/7/parts/1").unwrap();
    assert_eq!((files.policy(), files.cost().len(), files.cost()[0].estimate().of(1_000)), (None, 1, 9));
    let policies: Vec<&str> = api.policies().map(|name| name.as_str()).collect();
    assert_eq!(policies, ["every", "search"]);
}

/// D3: the fields of the documented registry work under the documented names.
#[test]
fn documented_field_names_work() {
    let api = api("documented");
    assert_eq!(settings(&api), Some(["2", "0.3", "3.5", "0.1", "0.5"].map(str::to_owned)));
    assert_eq!(api.documented(), Some("Approx. 3 requests/second per integration on average."));
    assert_eq!((api.backoff_codes(), api.max_retries()), (&[429, 503][..], 3));
    assert_eq!(api.origin("max_retries"), FieldOrigin::Config);
    assert_eq!(api.policy().map(|name| name.as_str()), Some("documented"));
    assert_eq!(limits(&config(), "documented"), [NOTION], "a policy of its rate");
    assert_eq!((api.concurrency(), api.dialect()), (None, None));
    assert!(config().policy("documented.concurrency").is_none());
}

/// D3 (Notion: 2.0, 0.3, 3.5, 0.1, 0.5): an api with the name of a profile needs no key.
#[test]
fn profile_is_the_default() {
    let config = config();
    let notion = config.api("notion").unwrap();
    assert_eq!(notion.base_url(), "https://api.notion.com/v1");
    assert_eq!(settings(notion), Some(["2", "0.3", "3.5", "0.1", "0.5"].map(str::to_owned)));
    assert_eq!(limits(&config, "notion"), ["3 requests / second paced", NOTION]);
    assert_eq!(notion.origin("rate"), FieldOrigin::Profile);
    assert_eq!(notion.origin("timeout"), FieldOrigin::Default);
    assert_eq!(
        (notion.max_retries(), notion.max_time(), notion.timeout()),
        (5, Span::from_mins(10), Span::from_mins(1))
    );
    let profile = Api::profile("notion").unwrap();
    assert_eq!(profile, **notion);
    assert!(Api::profile("notions").is_none());
    assert_eq!(Api::profiles().len(), 12);
}

#[test]
fn config_overrides_single_fields_of_a_profile() {
    let config = config();
    let second = config.api("second-notion").unwrap();
    assert_eq!(settings(second), Some(["2", "0.3", "3", "0.1", "0.5"].map(str::to_owned)));
    assert_eq!(second.profile_name().map(|name| name.as_str()), Some("notion"));
    let own = ["3 requests / second paced", NOTION];
    assert_eq!(limits(&config, "second-notion"), own, "a budget of its own");
    assert_eq!(second.documented_at(), None, "the profile's page does not say that");

    let claude = config.api("claude").unwrap();
    let headers: Vec<&str> = claude.headers().iter().map(|header| header.name()).collect();
    assert_eq!(headers, ["anthropic-version", "x-api-key"]);
    assert_eq!((claude.rate(), claude.timeout()), (None, Span::from_mins(5)));
    assert_eq!(limits(&config, "claude"), ["50 requests / minute bucket"]);
}

#[test]
fn policy_of_the_same_name_is_used() {
    let config = config();
    let stripe = config.api("stripe").unwrap();
    assert_eq!(stripe.policy().map(|name| name.as_str()), Some("stripe"));
    assert_eq!(limits(&config, "stripe"), ["10 requests / second paced", ONE]);
    assert_eq!(
        (stripe.limits(), settings(stripe).map(|[.., max, _, _]| max)),
        (&[][..], Some("5".to_owned()))
    );

    let github = config.api("github").unwrap();
    assert_eq!((github.dialect(), github.profile_name()), (None, None));
    assert_eq!(limits(&config, "github"), [AUTO]);

    assert_eq!(limits(&config, "shopify"), ["2 requests / second bucket burst 40", AUTO]);
    assert_eq!(limits(&config, "shopify.concurrency"), ["2 concurrent"]);
}

/// As a policy with the api's name does.
#[test]
fn policy_named_like_the_calls_in_flight_is_used() {
    let text = "[policies.'notion.concurrency']\nlimits = ['9 concurrent expires 5m']\n[apis.notion]\nconcurrency = 4";
    let config = Config::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = config.policies().iter().map(|policy| policy.name().as_str()).collect();
    assert_eq!(names, ["notion", "notion.concurrency"]);
    assert_eq!(limits(&config, "notion.concurrency"), ["9 concurrent expires 5m"]);
}

/// Secrets stay in the environment: headers name a variable, and its value appears nowhere else.
#[test]
fn header_values_come_from_variables() {
    let every = api("every");
    let accept = &every.headers()[0];
    assert_eq!((accept.name(), accept.value().as_deref()), ("accept", Ok("application/json")));
    let authorization = &every.headers()[1];
    assert_eq!((authorization.variable(), authorization.prefix()), (Some("EVERY_TOKEN"), "Bearer "));
    let error = authorization.value().unwrap_err().to_string();
    assert_eq!(
        error,
        "the header authorization needs the environment variable EVERY_TOKEN, which is not set"
    );

    // Cargo and scripts/run-tests set this one.
    let text = "[apis.a]\nbase_url = 'https://a'\nrate = 'auto'\nheaders = { x = { env = 'CARGO_MANIFEST_DIR', prefix = 'is ' } }";
    let config = Config::parse(text).unwrap();
    let value = concat!("is ", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(config.api("a").unwrap().headers()[0].value().as_deref(), Ok(value));
}

#[test]
fn literal_secrets_are_noticed_and_not_shown() {
    let of = |header: &str| {
        let text =
            format!("[apis.a]\nbase_url = 'https://a'\nrate = 'auto'\nheaders = {{ {header} = 'hidden' }}");
        let config = Config::parse(&text).unwrap();
        let header = config.api("a").unwrap().headers()[0].clone();
        (header.is_literal_secret(), format!("{header:?}"))
    };
    for secret in ["Authorization", "x-api-key", "X-Slack-Token", "cookie"] {
        assert_eq!(of(secret), (true, format!("{}: ***", secret.to_lowercase())));
    }
    assert_eq!(of("notion-version"), (false, "notion-version: hidden".to_owned()));
}

/// An error elsewhere on the line must not print the secret beside it.
#[test]
fn errors_do_not_show_secrets() {
    let text = "[apis.a]\nbase_url = 'https://a'\nrate = 'auto'\nheaders = { authorization = 'Bearer hidden', x = 5 }";
    let error = Config::parse(text).unwrap_err();
    assert_eq!((error.line(), error.word()), (Some(4), "x"));
    assert!(
        !error.to_string().contains("hidden") && error.to_string().contains("'*************'"),
        "{error}"
    );
}

#[test]
fn limiter_keeps_apis_and_follows_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollway.toml");
    fs::write(&path, "[apis.notion]\nmax_retries = 1\n[apis.slack]").unwrap();
    let limiter = Limiter::from_config_blocking(&path).unwrap();
    let held = limiter.api("notion").unwrap();
    assert_eq!((held.max_retries(), limiter.apis().len()), (1, 2));
    assert!(limiter.api("vanta").is_none());
    assert!(limiter.try_take("notion").now().unwrap().is_granted(), "the profile's limits are a policy");

    fs::write(&path, "[apis.notion]\nmax_retries = 2\nlimits = ['9 / minute', '9 tokens / minute']").unwrap();
    let changed = || limiter.api("notion").is_some_and(|notion| notion.max_retries() == 2);
    let waited = (0..3_000).find(|_| {
        std::thread::sleep(Duration::from_millis(20));
        changed()
    });
    assert!(waited.is_some(), "{:?}", limiter.reload_status());
    assert_eq!((held.max_retries(), limiter.apis().len()), (1, 1), "a held api stays as it is");
    let names: Vec<String> =
        limiter.policies()[0].limits().iter().map(|limit| limit.name().to_string()).collect();
    assert_eq!(names, ["requests_per_minute", "tokens_per_minute", "rate"]);
}

#[test]
fn limiter_takes_an_api_from_a_profile() {
    let limiter = Limiter::builder()
        .policy("stripe", ["1 request / minute"])
        .and_then(|builder| builder.with_api(Api::profile("stripe").unwrap()))
        .and_then(|builder| builder.with_api(Api::profile("vanta").unwrap()))
        .and_then(|builder| builder.with_api(Api::profile("slack").unwrap()))
        .and_then(|builder| builder.with_api(Api::profile("vanta").unwrap()))
        .unwrap()
        .build();
    let names: Vec<String> = limiter.apis().iter().map(|api| api.name().to_string()).collect();
    assert_eq!(names, ["slack", "stripe", "vanta"]);
    let policies: Vec<(String, String)> = limiter
        .policies()
        .iter()
        .map(|policy| (policy.name().to_string(), policy.limits()[0].to_string()))
        .collect();
    assert_eq!(
        policies,
        [("slack", SLACK), ("stripe", "1 request / minute"), ("vanta", "100 requests / minute paced")]
            .map(|(name, limit)| (name.to_owned(), limit.to_owned()))
    );
}

#[test]
fn address_of_an_api_can_be_replaced() {
    let notion = Api::profile("notion").unwrap();
    let local = notion.clone().with_base_url("http://127.0.0.1:8080/v1").unwrap();
    assert_eq!((local.base_url(), local.limits()), ("http://127.0.0.1:8080/v1", notion.limits()));
    assert!(notion.with_base_url("https://me:secret@a").unwrap_err().contains("password"));
}
