//! Lists of accounts, as tests of stores read them.

use tollway_core::{Name, Policy, Store};

use crate::takes::{subject, take_operation};
use crate::wait_for;

/// The accounts of a store as (policy, subject), sorted, and whether these are all.
pub fn list(store: &impl Store, policy: Option<&str>, at_most: usize) -> (Vec<(String, String)>, bool) {
    let policy = policy.map(|name| Name::new(name).expect("a valid name"));
    let list = store.accounts(policy.as_ref(), at_most).expect("a store that lists accounts");
    let list = wait_for(list).expect("the store answers");
    let pair = |key: tollway_core::AccountKey| (key.policy.to_string(), key.subject.to_string());
    let mut keys: Vec<(String, String)> = list.keys.into_iter().map(pair).collect();
    keys.sort();
    (keys, list.is_complete)
}

/// Checks on an empty store that it lists each account once, by policy, and within a bound.
pub fn are_listed(store: &impl Store) {
    assert_eq!(list(store, None, 10), (Vec::new(), true));
    let take = |policy: &str, name: &str| {
        let policy = Policy::new(policy, ["9 requests / day from first call"]).expect("a valid policy");
        let operation = take_operation(&[&policy], &subject(name));
        wait_for(store.apply(&[operation])).expect("the store answers");
    };
    for (policy, name) in [("a", ""), ("a", "x"), ("a", "x"), ("a", "s:{y}%:*\u{1b}"), ("a.b", "x")] {
        take(policy, name);
    }
    let pair = |policy: &str, name: &str| (policy.to_owned(), name.to_owned());
    let of_a = vec![pair("a", ""), pair("a", "s:{y}%:*\u{1b}"), pair("a", "x")];
    assert_eq!(list(store, Some("a"), 10), (of_a.clone(), true));
    assert_eq!(list(store, None, 10), ([of_a, vec![pair("a.b", "x")]].concat(), true));
    assert_eq!(list(store, Some("b"), 10), (Vec::new(), true));
    let (some, is_complete) = list(store, None, 3);
    assert_eq!((some.len(), is_complete), (3, false));
    let (all, is_complete) = list(store, None, 4);
    assert_eq!((all.len(), is_complete), (4, true));
}
