//! Limits set at run time, as tests of stores set and read them.

use tollway_core::{Name, SettingChange, Settings, Store};

use crate::wait_for;

/// A change of a limit's amount and burst; none clears it.
pub fn change(limit: &str, amounts: Option<(u64, Option<u64>)>) -> SettingChange {
    let name = |name: &str| Name::new(name).expect("a valid name");
    SettingChange { policy: name("größe"), limit: name(limit), amounts }
}

/// Makes the change.
pub fn set(store: &impl Settings, change: SettingChange) {
    wait_for(store.change(change)).expect("the store answers");
}

/// The name, amount and burst of each limit that is set, by name.
pub fn read(store: &impl Store) -> Vec<(String, u64, Option<u64>)> {
    let settings = store.settings().expect("a store that keeps settings").settings();
    let settings = wait_for(settings).expect("the store answers").into_iter();
    let mut settings: Vec<_> =
        settings.map(|setting| (setting.limit.as_str().to_owned(), setting.amount, setting.burst)).collect();
    settings.sort();
    settings
}

/// Checks that each of two stores reads what the other sets and clears.
pub fn are_shared<S: Store + Settings>(one: &S, other: &S) {
    assert!(read(other).is_empty());
    set(one, change("rpm", Some((5, None))));
    set(other, change("tpm", Some((900, Some(1_800)))));
    set(one, change("rpm", Some((7, None))));
    let expected = [("rpm".to_owned(), 7, None), ("tpm".to_owned(), 900, Some(1_800))];
    assert_eq!(read(one), expected);
    assert_eq!(read(other), expected);
    set(other, change("rpm", None));
    assert_eq!(read(one), expected[1..]);
}
