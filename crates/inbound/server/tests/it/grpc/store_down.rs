//! A failing store: each policy follows its `when_store_fails`, and `closed` leaves the decision to Envoy.

use tollway_testkit::servers::RedisServer;

use crate::messages::{OK, OVER_LIMIT, descriptor, question};
use crate::running::Running;

/// B4, B10: `closed` is an error, so that `failure_mode_deny` decides; `open` grants; `local` grants its share.
#[test]
fn when_store_fails_applies_while_the_store_is_down() {
    let redis = RedisServer::start();
    let policy = |mode: &str| {
        format!(
            "[policies.{mode}]\nlimits = [\"100 / hour\"]\nwhen_store_fails = \"{mode}\"\n\
             [[server.descriptors]]\ndomain = \"edge\"\nkeys = [\"{mode}\"]\npolicy = \"{mode}\"\n"
        )
    };
    let modes: String = ["closed", "open", "local"].map(policy).concat();
    let server = Running::of(&format!("[store]\nurl = \"{}\"\n{modes}", redis.url()));
    let mut envoy = server.envoy();
    let asked = |mode: &str| question([descriptor(&[&format!("{mode}=v")])]);
    assert_eq!(envoy.ask(&asked("closed")).statuses[0].limit_remaining, 99);
    let look = || descriptor(&["closed=v"]).with_hits(0);
    assert_eq!(envoy.ask(&question([look()])).statuses[0].limit_remaining, 99);

    redis.kill();
    let (code, message) = envoy.ask_wrongly(&asked("closed"));
    assert_eq!(code, 14, "{message}");
    assert_eq!(envoy.ask_wrongly(&question([look()])).0, 14);
    let open = envoy.ask(&asked("open"));
    assert_eq!((open.overall_code, open.statuses[0].current_limit.clone()), (OK, None));
    assert_eq!(envoy.ask(&question([descriptor(&["open=v"]).with_hits(0)])).overall_code, OK);
    let local: Vec<i32> = (0..12).map(|_| envoy.ask(&asked("local")).overall_code).collect();
    assert_eq!(local, [[OK; 10].as_slice(), &[OVER_LIMIT; 2]].concat());
    let both = question([descriptor(&["open=v"]), descriptor(&["closed=v"])]);
    assert_eq!(envoy.ask_wrongly(&both).0, 14, "the strictest decides");
}
