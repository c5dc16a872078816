//! The response: limit, remaining, reset time, and headers.

use crate::messages::{Limit, OK, OVER_LIMIT, Status, descriptor, question};
use crate::running::Running;

fn config(limits: &str, server: &str) -> String {
    format!(
        "[policies.p]\nlimits = [{limits}]\n[server]\n{server}\n[[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"k\"]\npolicy = \"p\"\n"
    )
}

fn first_status(limits: &str) -> Status {
    let server = Running::of(&config(limits, ""));
    let response = server.envoy().ask(&question([descriptor(&["k=v"])]));
    assert_eq!(response.statuses.len(), 1);
    response.statuses[0].clone()
}

/// B10: every field of a status, and every period that Envoy has a unit for.
#[test]
fn status_shows_limit_remaining_and_reset() {
    for (limit, unit, longest) in [
        ("10 / second from first call", 1, 1),
        ("10 / minute from first call", 2, 60),
        ("10 / hour from first call", 3, 3_600),
        ("10 / day", 4, 86_400),
        ("10 / month", 5, 31 * 86_400),
        ("10 / 8760 hours", 6, 365 * 86_400),
        ("10 / week", 7, 7 * 86_400),
        ("10 / 90 seconds from first call", 0, 90),
    ] {
        let status = first_status(&format!("\"my_name: {limit}\""));
        let told = Limit { requests_per_unit: 10, unit, name: "my_name".to_owned() };
        assert_eq!((status.code, status.current_limit), (OK, Some(told)), "{limit}");
        assert_eq!(status.limit_remaining, 9, "{limit}");
        let reset = status.duration_until_reset.unwrap();
        assert!((1..=longest).contains(&reset.seconds) && reset.nanos == 0, "{limit}: {reset:?}");
    }
}

/// Envoy writes the names into `x-ratelimit-limit`: limits of two policies with one name are told apart.
#[test]
fn limits_of_two_policies_have_different_names() {
    let text = config("\"9 / minute\"", "")
        + "[[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"user\"]\npolicy = \"q\"\n[policies.q]\nlimits = [\"7 / minute\"]\n";
    let response =
        Running::of(&text).envoy().ask(&question([descriptor(&["k=v"]), descriptor(&["user=ann"])]));
    let names = response.statuses.iter().map(|status| status.current_limit.clone().unwrap().name);
    assert_eq!(names.collect::<Vec<_>>(), ["p.requests_per_minute", "q.requests_per_minute"]);
}

#[test]
fn status_shows_the_scarcest_limit() {
    let status = first_status(r#""5 / day", "3 / hour from first call", "20 / week""#);
    assert_eq!(status.current_limit.map(|limit| limit.requests_per_unit), Some(3));
    assert_eq!(status.limit_remaining, 2);
}

/// B10: the client gets the headers that the config chooses, and a denial has `Retry-After`.
#[test]
fn config_chooses_the_headers() {
    for (choice, [own, structured]) in [
        (r#"headers = ["x-rate-limit"]"#, [true, false]),
        (r#"headers = ["ratelimit"]"#, [false, true]),
        ("headers = []", [false, false]),
        ("headers = [\"ratelimit\", \"x-rate-limit\"]", [true, true]),
        // Not configured: Envoy writes its own.
        ("", [false, false]),
        ("[server.policies.p]\nheaders = [\"x-rate-limit\"]", [true, false]),
    ] {
        let server = Running::of(&config("\"1 / hour from first call\"", choice));
        let mut envoy = server.envoy();
        let request = question([descriptor(&["k=v"])]);
        let granted = envoy.ask(&request);
        let told = |name| granted.header(name);
        assert_eq!(told("x-rate-limit-limit"), own.then_some("1"), "{choice}");
        assert_eq!(told("x-rate-limit-remaining"), own.then_some("0"), "{choice}");
        let policy = structured.then_some(r#""requests_per_hour";q=1;w=3600"#);
        assert_eq!(told("ratelimit-policy"), policy, "{choice}");
        assert_eq!(told("retry-after"), None);
        let denied = envoy.ask(&request);
        assert_eq!(denied.overall_code, OVER_LIMIT);
        let wait: u32 = denied.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=3_600).contains(&wait), "{wait}");
    }
}
