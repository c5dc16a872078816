//! `/v1/live`: what it sends, what it does not, and when it ends.

use std::time::Instant;

use tollway::Limiter;
use tollway_dashboard::snapshot::{Level, Mode, SeenBy};

use crate::client::{Live, ask};
use crate::running::{Running, Setup};

/// P6: the first event is the whole state, later ones have what changed.
#[test]
fn a_take_moves_its_row_and_no_other() {
    let server = Running::of(
        "[policies.adobe]\nlimits = ['4 requests / hour']\n[policies.other]\nlimits = ['9 / day']",
    );
    assert!(server.take("adobe", ""));
    let mut live = server.live();
    live.until("read", |state| {
        state.rows.iter().any(|row| row.id == "adobe/requests_per_hour" && row.used == Some(1))
    });
    let row = live.state.rows.iter().find(|row| row.policy == "adobe").unwrap().clone();
    assert_eq!((row.amount, row.capacity, row.seen_by), (4, 4, SeenBy::Store));
    assert_eq!((row.text.as_str(), row.spark.len()), ("4 requests / hour", 60));
    assert_eq!(live.state.totals.policies, 2);
    for _ in 0..4 {
        server.take("adobe", "");
    }
    live.until("used up", |state| state.rows[0].used == Some(4) && state.rows[0].denied_5m == 1);
    assert_eq!(live.state.rows[0].policy, "adobe", "the fullest is first in the whole state");
    assert!(
        live.state.sentence.text.starts_with("`adobe` is the bottleneck: used up"),
        "{:?}",
        live.state.sentence
    );
    assert_eq!(live.state.sentence.level, Level::Attention);
    // The wait of `adobe` counts down, and nothing happens to the other but its sparkline, every five seconds.
    let events: Vec<_> = (0..4).map(|_| live.next()).collect();
    assert!(events.iter().all(|event| event.name == "changes"), "{events:?}");
    assert!(events.iter().any(|event| !event.data.contains("\"policy\":\"other\"")), "{events:?}");
}

/// P6: a limit that an operator sets to 0 is shown as stopped to every viewer.
#[test]
fn a_stopped_policy_goes_first() {
    let server = Running::of("[policies.a]\nlimits = ['2 / hour']\n[policies.b]\nlimits = ['2 / hour']");
    server.take("a", "");
    server.take("a", "");
    server.limiter.set_limit("b", "requests_per_hour", "0").now().unwrap();
    let mut live = server.live();
    live.until("stopped", |state| state.rows.iter().any(|row| row.modes == [Mode::Stopped]));
    assert_eq!(live.state.sentence.level, Level::Trouble);
    assert!(live.state.sentence.text.contains("`b` is stopped"), "{:?}", live.state.sentence);
}

/// P6: callers that name no subject share an account, which is as full as any subject's.
#[test]
fn callers_without_a_subject_are_seen_beside_those_with_one() {
    let server = Running::of("[policies.mixed]\nlimits = ['4 requests / hour']");
    let mut live = server.live();
    server.take("mixed", "model");
    for _ in 0..4 {
        server.take("mixed", "");
    }
    live.until("used up", |state| state.rows.iter().any(|row| row.used == Some(4)));
    assert!(live.state.sentence.text.starts_with("`mixed` is the bottleneck"), "{:?}", live.state.sentence);
}

/// T22: subjects may be names of persons; the stream is open to every program of this machine.
#[test]
fn no_subject_is_in_the_stream() {
    let server = Running::of("[policies.users]\nlimits = ['3 requests / hour']");
    let mut live = Live::open(server.admin, "");
    for _ in 0..4 {
        server.take("users", "ann@example.com");
    }
    live.until("seen", |state| {
        state
            .rows
            .iter()
            .any(|row| row.subjects.is_some_and(|subjects| subjects.fullest_percent == Some(100)))
    });
    let row = &live.state.rows[0];
    assert_eq!((row.seen_by, row.used, row.subjects.unwrap().seen_5m), (SeenBy::Process, Some(3), Some(1)));
    assert!(!serde_json::to_string(&live.state).unwrap().contains("ann"));
    let path = "/v1/view/policies/users/subjects";
    assert_eq!(ask(server.admin, "GET", path, "", "").status, 401);
    let seen = server.get(path).json();
    assert_eq!(
        (&seen["subjects"][0]["subject"], &seen["subjects"][0]["used"]),
        (&"ann@example.com".into(), &3.into())
    );
    assert_eq!(
        (&seen["subjects"][0]["granted_5m"], &seen["subjects"][0]["denied_5m"]),
        (&3.into(), &1.into())
    );
}

/// P6, T19: an event has at most 64 KiB however many policies there are, and however long their names.
#[test]
fn an_event_of_ten_thousand_policies_fits() {
    let names: Vec<String> = (0..10_000).map(|number| format!("{number:05}-{}", "long".repeat(30))).collect();
    let mut builder = Limiter::builder().metrics();
    for name in &names {
        builder = builder.policy(name, ["100 requests / hour", "1000 requests / day"]).unwrap();
    }
    let setup = Setup { limiter: builder.build(), ..Setup::of("") };
    let server = setup.start();
    for (number, name) in names.iter().enumerate() {
        for _ in 0..number % 3 {
            server.take(name, "");
        }
    }
    let begun = Instant::now();
    let mut live = server.live();
    println!(
        "first event after {:?}: {} rows of {}",
        begun.elapsed(),
        live.state.rows.len(),
        live.state.totals.rows
    );
    assert!((20..=200).contains(&live.state.rows.len()), "{}", live.state.rows.len());
    assert_eq!(
        (live.state.totals.policies, live.state.totals.policies_without_rows),
        (10_000, 6_666 - 4_096)
    );
    let whole = serde_json::to_vec(&live.state).unwrap().len();
    assert!(whole < 64 * 1_024 - 100, "{whole}");
    for _ in 0..8 {
        let (event, begun) = (live.next(), Instant::now());
        println!("{} bytes, {:?}", event.bytes(), begun.elapsed());
        assert!(event.bytes() <= 64 * 1_024, "{}", event.bytes());
    }
}

/// P6: it costs nothing without a viewer: subjects are noted only while someone watches, and forgotten then.
#[test]
fn nothing_is_noted_without_a_viewer() {
    let server = Running::of("[policies.users]\nlimits = ['1000 / hour']");
    server.take("users", "before");
    let subjects = || server.get("/v1/view/policies/users/subjects").json()["subjects"].to_string();
    assert_eq!(subjects(), "[]");
    let mut live = server.live();
    server.take("users", "while");
    live.until("seen", |state| {
        state.rows.iter().any(|row| row.subjects.is_some_and(|seen| seen.seen_5m == Some(1)))
    });
    assert!(subjects().contains("while"));
    let viewers = live.state.totals.viewers;
    assert_eq!(viewers, 1);
    drop(live);
    let begun = Instant::now();
    while subjects() != "[]" {
        assert!(begun.elapsed() < crate::client::LONG, "it goes on without a viewer");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    server.take("users", "after");
    assert_eq!(subjects(), "[]");
}

/// P6: viewers share what was encoded once; each has a whole state first.
#[test]
fn many_viewers_see_the_same() {
    let server = Running::of("[policies.a]\nlimits = ['9 / hour']");
    server.take("a", "");
    let mut viewers: Vec<Live> = (0..8).map(|_| server.live()).collect();
    viewers.iter_mut().for_each(|live| live.until("counted", |state| state.totals.viewers == 8));
    let at = viewers.iter().map(|live| live.state.at).max().unwrap();
    viewers.iter_mut().for_each(|live| live.until("as late", |state| state.at >= at));
    let first = viewers[0].state.clone();
    assert!(viewers.iter().filter(|live| live.state.at == first.at).all(|live| live.state == first));
    drop(viewers.split_off(3));
    viewers[0].until("fewer", |state| state.totals.viewers == 3);
}

/// P6: an open page does not keep the server from stopping, and its stream ends as streams end.
#[test]
fn the_stream_ends_with_the_server() {
    let mut server = Running::of("[policies.a]\nlimits = ['9 / hour']");
    let mut live = server.live();
    live.next();
    let begun = Instant::now();
    server.stop();
    println!("stopped after {:?}", begun.elapsed());
    while live.event().is_some() {}
}
