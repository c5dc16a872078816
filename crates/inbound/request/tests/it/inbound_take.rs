//! From charges to a decision, and from a decision to the limits that a response shows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use tollway::{Limiter, PolicyHandle};
use tollway_core::Policy;
use tollway_inbound::headers::{CallerKind, HeaderChoice, TooManyRequests};
use tollway_inbound::{Admission, CountedCharge, InboundTake, decision_of};

/// The output of a future that is ready at its first poll: the store is in memory.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store in memory answers at once"),
    }
}

fn charge<'a>(handle: &'a PolicyHandle, policy: &'a Policy, subject: &'a str) -> CountedCharge<'a> {
    CountedCharge { handle, policy, subject, amounts: SmallVec::new(), headers: HeaderChoice::ALL }
}

#[test]
fn a_denial_names_the_limit_that_has_no_room() {
    let limiter = Limiter::builder().policy("api", ["5 / hour", "1 / minute"]).unwrap().build();
    let handle = limiter.policy("api").unwrap();
    let policy = handle.policy();
    let take = InboundTake::now([charge(&handle, &policy, "anna")]);
    for (granted, refuses) in [(true, [false, false]), (false, [false, true])] {
        let taken = at_once(take.decide()).unwrap();
        let decision = decision_of(&taken);
        let statuses = take.limit_statuses(decision, false);
        assert_eq!(decision.is_granted(), granted);
        assert_eq!(statuses.iter().map(|status| status.refuses).collect::<Vec<_>>(), refuses);
        assert!(statuses.iter().all(|status| status.policy.is_none()));
        if let Err(denied) = &taken {
            let body = TooManyRequests::of_denial(&policy, &statuses, denied, CallerKind::Subject);
            assert_eq!((body.policy, body.limit), ("api", Some("requests_per_minute")));
        }
    }
}

/// Several charges are taken together or not at all, and each limit shows its policy.
#[test]
fn several_policies_are_one_take() {
    let builder = Limiter::builder().policy("one", ["1 / hour"]).unwrap();
    let limiter = builder.policy("two", ["2 / hour"]).unwrap().build();
    let (one, two) = (limiter.policy("one").unwrap(), limiter.policy("two").unwrap());
    let (first, second) = (one.policy(), two.policy());
    let take = InboundTake::now([charge(&one, &first, ""), charge(&two, &second, "")]);
    let left = |take: &InboundTake<'_>| {
        let taken = at_once(take.decide()).unwrap();
        let statuses = take.limit_statuses(decision_of(&taken), false);
        assert!(statuses.iter().all(|status| status.policy.is_some()));
        statuses.iter().map(|status| status.reading.remaining).collect::<Vec<_>>()
    };
    assert_eq!(left(&take), [0, 1]);
    assert_eq!(left(&take), [0, 1], "the denied take charges nothing to the second policy");
}

#[test]
fn map_changes_only_counted_admissions() {
    assert_eq!(Admission::Counted(1).map(|count| count + 1), Admission::Counted(2));
    assert_eq!(Admission::<u8>::Free.map(u16::from), Admission::Free);
    assert_eq!(Admission::<u8>::Blocked.map(u16::from), Admission::Blocked);
}
