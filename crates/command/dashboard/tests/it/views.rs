//! The views behind the first screen.

use tollway::metrics::{ApiRefusal, RefusedBy};
use tollway::{Limiter, Span};

use crate::client::ask;
use crate::running::{Running, Setup};

/// P6: policies beyond the first screen are found by name, also unused ones.
#[test]
fn policies_are_searched_and_paged() {
    let mut builder = Limiter::builder().metrics();
    for number in 0..120 {
        builder = builder.policy(&format!("p{number:03}"), ["9 requests / hour"]).unwrap();
    }
    let server = Setup { limiter: builder.build(), ..Setup::of("") }.start();
    server.take("p119", "");
    let list = |query: &str| server.get(&format!("/v1/view/policies{query}")).json();
    let (first, last) = (list(""), list("?from=100"));
    assert_eq!((&first["total"], first["rows"].as_array().unwrap().len()), (&120.into(), 50));
    assert_eq!(last["rows"].as_array().unwrap().len(), 20);
    let found = list("?search=P119");
    assert_eq!((&found["total"], &found["rows"][0]["used"]), (&1.into(), &1.into()));
    assert_eq!(server.get("/v1/view/policies?serch=x").status, 400);
    assert_eq!(server.get("/v1/view/policies/nothing").status, 404);
}

/// T22: subjects may be any text. It is data in JSON, and its answer is nothing that a browser runs.
#[test]
fn hostile_subjects_are_data() {
    let subject = "</script><img src=x onerror=alert(1)>\"'&\u{202e}\r\n\r\ndata: {}";
    let server = Running::of("[policies.users]\nlimits = ['9 requests / hour']");
    let mut live = server.live();
    server.take("users", subject);
    let is_seen =
        |row: &tollway_dashboard::snapshot::Row| row.subjects.is_some_and(|seen| seen.seen_5m == Some(1));
    live.until("seen", |state| state.rows.iter().any(is_seen));
    let answer = server.get("/v1/view/policies/users/subjects");
    assert_eq!(answer.json()["subjects"][0]["subject"], subject);
    assert!(answer.has("content-type: application/json"), "{answer:?}");
}

/// P6: a limit that another process or command sets shows in the log of changes, while a page is open.
#[test]
fn changes_made_elsewhere_are_seen() {
    let server = Running::of("[policies.a]\nlimits = ['9 requests / hour']");
    let mut live = server.live();
    live.next();
    server.limiter.set_limit("a", "requests_per_hour", "7").now().unwrap();
    live.until("set", |state| state.rows.iter().any(|row| row.amount == 7));
    live.next();
    let change = server.get("/v1/view/policies/a").json()["changes"][0].clone();
    assert_eq!((&change["who"], &change["to"]), (&"another process".into(), &"7".into()));
}

/// G11: whose refusal it was, and what the vendor said; its words only with a token.
#[test]
fn a_refusal_says_whose_it_was() {
    let config = "[apis.notion]\nbase_url = 'https://api.notion.com'\nlimits = ['3 requests / second']";
    let server = Running::of(config);
    let api = server.limiter.api("notion").unwrap();
    let (figures, at) = (server.limiter.api_figures(api.name()), server.limiter.clock().now());
    let (dialect, kind, words) = ("generic", "rate", Some("slow down, ann".to_owned()));
    figures.count_refusal(kind);
    figures.note_refusal(ApiRefusal {
        at,
        by: RefusedBy::Vendor { dialect, kind, words },
        wait: Some(Span::from_secs(7)),
    });
    let ours =
        RefusedBy::OurLimit { policy: "notion".to_owned(), limit: Some("requests_per_second".to_owned()) };
    figures.note_refusal(ApiRefusal { at, by: ours, wait: None });
    let view = server.get("/v1/view/apis/notion").json();
    let [ours, vendor] = [0, 1].map(|index| view["refusals"][index].clone());
    assert_eq!((&ours["whose"], &ours["limit"]), (&"ours".into(), &"requests_per_second".into()));
    assert_eq!(
        (&vendor["whose"], &vendor["dialect"], &vendor["wait_ms"]),
        (&"vendor".into(), &"generic".into(), &7_000.into())
    );
    assert_eq!(vendor["words"], "slow down, ann");
    let open = ask(server.admin, "GET", "/v1/view/apis/notion", "", "");
    assert!(open.status == 200 && !open.body.contains("ann"), "{open:?}");
    let mut live = server.live();
    live.until("counted", |state| state.apis.iter().any(|api| api.refused_5m == 1));
    assert_eq!(live.state.apis[0].refused["rate"], 1);
}

/// G11: an incident is found with all that was known at its moment, with a token.
#[test]
fn incidents_are_shown_with_a_token() {
    let server = Running::of("[policies.vendor]\nlimits = ['9 requests / hour']");
    let permit = server.limiter.try_take("vendor").subject("ann").now().unwrap().granted().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let incident = runtime.block_on(permit.refused_by_vendor("429 Too Many Requests")).remove(0);
    assert_eq!(ask(server.admin, "GET", "/v1/view/incidents", "", "").status, 401);
    let list = server.get("/v1/view/incidents").json();
    assert_eq!((&list["total"], &list["incidents"][0]["id"]), (&1.into(), &incident.id.clone().into()));
    let one = server.get(&format!("/v1/view/incidents/{}", incident.id)).json();
    assert_eq!((&one["subject"], &one["limits"][0]["used"]), (&"ann".into(), &1.into()));
    let mut live = server.live();
    live.until("counted", |state| state.incidents.count == 1);
}
