//! Behaviour of every storage of records: one scenario per function, one test per scenario and storage.

use std::sync::Barrier;
use std::thread;

use tollway_consumers::{
    AMOUNT_MAX, Active, Amounts, Consumer, Draft, RECORDS_PER_CONSUMER_MAX, Record, Records, RecordsFault,
    Scope, Validity, write_date,
};
use tollway_core::{Period, Retry, Timestamp};

use super::{consumer, draft, for_api, soon, validity};

/// Generates a test of every scenario on new, empty records from `$open`.
macro_rules! holds_for {
    ($open:expr) => {
        $crate::support::scenarios::holds_for! { $open;
            a_record_is_kept_and_read_again
            records_come_by_where_they_begin
            a_change_keeps_id_and_creation
            a_record_of_another_consumer_is_not_found
            records_of_one_scope_may_overlap_and_add_up
            overlapping_records_made_at_once_are_all_kept
            a_record_may_last_until_the_year_9999
            deleted_records_are_gone
            blocking_is_a_flag_of_its_own
            there_is_a_bound_to_the_records_of_a_consumer
            consumers_come_in_pages
            every_change_moves_the_watch_before_it_is_answered
            texts_and_numbers_come_back_as_they_were
            aggregation_example_100_plus_50_is_150
            a_record_of_100_and_one_of_minus_1_give_100
            a_record_that_begins_at_12_01_47_counts_for_all_of_hour_12
        }
    };
    ($open:expr; $($name:ident)*) => {
        $(#[test]
        fn $name() {
            let (_kept, records) = $open;
            $crate::support::scenarios::$name(&records);
        })*
    };
}
pub(crate) use holds_for;

fn create(records: &dyn Records, draft: Draft) -> Record {
    soon(records.create(draft)).unwrap()
}

fn read(records: &dyn Records, name: &str) -> Consumer {
    soon(records.consumer(&consumer(name))).unwrap()
}

pub(crate) fn a_record_is_kept_and_read_again(records: &dyn Records) {
    assert_eq!(read(records, "c"), Consumer::default());
    assert!(!read(records, "c").is_known());
    let made = create(records, draft("c", 100));
    assert_eq!(made.draft, draft("c", 100));
    assert_eq!(made.created_at, made.updated_at);
    let found = read(records, "c");
    assert_eq!(found, Consumer { records: vec![made.clone()], blocked: false });
    assert_eq!((found.is_known(), found.record(made.id)), (true, Some(&made)));
    assert!(!read(records, "C").is_known(), "ids are compared by their bytes");
}

pub(crate) fn records_come_by_where_they_begin(records: &dyn Records) {
    let begin = |day: &str| {
        let validity = validity(&format!("2026-{day}T00:00:00Z"), &format!("2026-{day}T23:59:59Z"));
        create(records, Draft { validity, ..draft("c", 1) }).id
    };
    let (second, third, first) = (begin("02-01"), begin("03-01"), begin("01-01"));
    let ids: Vec<_> = read(records, "c").records.iter().map(|record| record.id).collect();
    assert_eq!(ids, [first, second, third]);
}

pub(crate) fn a_change_keeps_id_and_creation(records: &dyn Records) {
    let made = create(records, draft("c", 100));
    let other = Draft { validity: validity("2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"), ..draft("c", 7) };
    let changed = soon(records.change(made.id, other.clone())).unwrap();
    assert_eq!((changed.id, &changed.draft, changed.created_at), (made.id, &other, made.created_at));
    assert!(changed.updated_at >= made.updated_at);
    assert_eq!(read(records, "c").records, [changed]);
}

pub(crate) fn a_record_of_another_consumer_is_not_found(records: &dyn Records) {
    let made = create(records, draft("mine", 100));
    let error = soon(records.change(made.id, draft("theirs", 5))).unwrap_err();
    assert_eq!((error.fault, error.retry), (RecordsFault::NotFound, Retry::Useless));
    let error = soon(records.delete(&consumer("theirs"), made.id)).unwrap_err();
    assert_eq!(error.fault, RecordsFault::NotFound);
    assert!(error.is_callers() && error.message.contains(&made.id.to_string()), "{error}");
    assert_eq!(read(records, "mine").records, [made], "nothing has changed");
    assert!(!read(records, "theirs").is_known());
}

/// C3: records of one scope may overlap, with the same dates too; their amounts add up, and those without a limit add none.
pub(crate) fn records_of_one_scope_may_overlap_and_add_up(records: &dyn Records) {
    let in_range = |from, to, minute| Draft { validity: validity(from, to), ..draft("c", minute) };
    let whole_year = create(records, draft("c", 100));
    let same_dates = create(records, draft("c", 50));
    create(records, in_range("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z", 7));
    create(records, in_range("2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", -1));
    let scoped: Vec<Record> =
        (0..2).map(|_| create(records, for_api(draft("c", 1_000), "accounts"))).collect();
    assert_eq!(minute(records, "2026-05-31-23"), Some(2_150));
    assert_eq!(minute(records, "2026-06-01-12"), Some(2_157));
    assert_eq!(minute(records, "2027-06-01-12"), None, "only a record without a limit is left");
    soon(records.change(scoped[0].id, draft("c", 9))).unwrap();
    assert_eq!(minute(records, "2026-05-31-23"), Some(1_159), "a change may overlap others, too");
    soon(records.delete(&consumer("c"), same_dates.id)).unwrap();
    assert_eq!(minute(records, "2026-05-31-23"), Some(1_109));
    let found = read(records, "c");
    assert_eq!((found.records.len(), found.record(whole_year.id)), (5, Some(&whole_year)));
}

pub(crate) fn overlapping_records_made_at_once_are_all_kept(records: &dyn Records) {
    let barrier = &Barrier::new(8);
    thread::scope(|scope| {
        let make = || {
            barrier.wait();
            create(records, draft("c", 100));
        };
        for _ in 0..8 {
            scope.spawn(make);
        }
    });
    assert_eq!(read(records, "c").records.len(), 8);
    assert_eq!(minute(records, "2026-06-01-12"), Some(800));
}

/// C8: 9999-12-31 is how other systems write "for ever". It comes back as it was written.
pub(crate) fn a_record_may_last_until_the_year_9999(records: &dyn Records) {
    for to in ["9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z"] {
        let made =
            create(records, Draft { validity: validity("2026-06-01T00:00:00Z", to), ..draft("c", 100) });
        assert_eq!(write_date(made.draft.validity.to()), to);
        assert_eq!(read(records, "c").record(made.id), Some(&made));
        for (hour, limit) in
            [("2026-05-31-23", None), ("2026-06-01-00", Some(100)), ("2255-06-05-22", Some(100))]
        {
            assert_eq!(minute(records, hour), limit, "{hour}");
        }
        soon(records.delete(&consumer("c"), made.id)).unwrap();
    }
}

pub(crate) fn deleted_records_are_gone(records: &dyn Records) {
    let made = create(records, draft("c", 100));
    soon(records.delete(&consumer("c"), made.id)).unwrap();
    assert!(!read(records, "c").is_known());
    let again = soon(records.delete(&consumer("c"), made.id)).unwrap_err();
    assert_eq!(again.fault, RecordsFault::NotFound);
    assert_eq!(soon(records.change(made.id, draft("c", 1))).unwrap_err().fault, RecordsFault::NotFound);
    create(records, draft("c", 100));
}

/// C3: blocking a consumer is a flag of its own.
pub(crate) fn blocking_is_a_flag_of_its_own(records: &dyn Records) {
    let (made, name) = (create(records, draft("c", 100)), consumer("c"));
    for _ in 0..2 {
        soon(records.set_blocked(&name, true)).unwrap();
        assert_eq!(read(records, "c"), Consumer { records: vec![made.clone()], blocked: true });
    }
    soon(records.delete(&name, made.id)).unwrap();
    let found = read(records, "c");
    assert!(found.blocked && found.is_known() && found.records.is_empty());
    for _ in 0..2 {
        soon(records.set_blocked(&name, false)).unwrap();
        assert!(!read(records, "c").is_known());
    }
}

pub(crate) fn there_is_a_bound_to_the_records_of_a_consumer(records: &dyn Records) {
    let numbered = |number: usize| for_api(draft("c", 1), &format!("api {number}"));
    let made: Vec<Record> =
        (0..RECORDS_PER_CONSUMER_MAX).map(|number| create(records, numbered(number))).collect();
    let error = soon(records.create(numbered(RECORDS_PER_CONSUMER_MAX))).unwrap_err();
    assert_eq!((error.fault, error.is_callers()), (RecordsFault::TooMany, true));
    assert_eq!(read(records, "c").records.len(), RECORDS_PER_CONSUMER_MAX);
    create(records, draft("another", 1));
    soon(records.change(made[0].id, for_api(draft("c", 1), "changed"))).unwrap();
    soon(records.delete(&consumer("c"), made[0].id)).unwrap();
    create(records, numbered(RECORDS_PER_CONSUMER_MAX));
}

pub(crate) fn consumers_come_in_pages(records: &dyn Records) {
    let page = |after: Option<&str>, limit| {
        let found = soon(records.consumers(after.map(consumer).as_ref(), limit)).unwrap();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(page(None, 10).is_empty());
    for name in ["b", "ä", "B", "a"] {
        create(records, draft(name, 1));
    }
    create(records, for_api(draft("b", 1), "accounts"));
    for name in ["b", "blocked"] {
        soon(records.set_blocked(&consumer(name), true)).unwrap();
    }
    assert_eq!(page(None, usize::MAX), ["B", "a", "b", "blocked", "ä"], "in the order of their bytes");
    assert_eq!(page(None, 2), ["B", "a"]);
    assert_eq!(page(Some("a"), 2), ["b", "blocked"]);
    assert_eq!(page(Some("az"), 1), ["b"], "also after one that is not there");
    assert!(page(Some("ä"), 5).is_empty() && page(None, 0).is_empty());
}

pub(crate) fn every_change_moves_the_watch_before_it_is_answered(records: &dyn Records) {
    let watch = records.changes();
    let mut seen = watch.borrow().number;
    let mut moved = || {
        let number = watch.borrow().number;
        assert!(number > seen, "{number} after {seen}");
        seen = number;
    };
    let made = create(records, draft("c", 100));
    moved();
    soon(records.change(made.id, draft("c", 50))).unwrap();
    moved();
    soon(records.set_blocked(&consumer("c"), true)).unwrap();
    moved();
    soon(records.set_blocked(&consumer("c"), false)).unwrap();
    moved();
    soon(records.delete(&consumer("c"), made.id)).unwrap();
    moved();
}

pub(crate) fn texts_and_numbers_come_back_as_they_were(records: &dyn Records) {
    let text = |text: &str| Some(text.to_owned());
    let hostile = Draft {
        consumer: consumer("x'y\"z%_\\;--ü"),
        scope: Scope::new(text("'); DROP TABLE records; --"), text("%s"), text("größe 🙂")).unwrap(),
        validity: Validity::new(Timestamp::EPOCH, Timestamp::MAX).unwrap(),
        amounts: Amounts::new([AMOUNT_MAX, 0, -1, 1, AMOUNT_MAX, 0]).unwrap(),
    };
    let made = create(records, hostile.clone());
    assert_eq!(read(records, hostile.consumer.as_str()).records, std::slice::from_ref(&made));
    assert_eq!(made.draft, hostile);
}

fn minute(records: &dyn Records, hour: &str) -> Option<u64> {
    let active = Active::of(&read(records, "c").records, hour.parse().unwrap(), &Amounts::NONE, false);
    active.limits.of(Period::Minute).map(std::num::NonZeroU64::get)
}

/// C3, the documented example: `per_minute` 100 in one record and 50 in another make 150.
pub(crate) fn aggregation_example_100_plus_50_is_150(records: &dyn Records) {
    create(records, for_api(draft("c", 100), "accounts"));
    create(records, for_api(draft("c", 50), "cards"));
    assert_eq!(minute(records, "2026-06-01-12"), Some(150));
}

/// C3: 100 and -1 give 100.
pub(crate) fn a_record_of_100_and_one_of_minus_1_give_100(records: &dyn Records) {
    create(records, for_api(draft("c", 100), "accounts"));
    create(records, for_api(draft("c", -1), "cards"));
    assert_eq!(minute(records, "2026-06-01-12"), Some(100));
}

/// C3: a record counts for a UTC hour if it is valid at any moment of it.
pub(crate) fn a_record_that_begins_at_12_01_47_counts_for_all_of_hour_12(records: &dyn Records) {
    let validity = validity("2026-06-01T12:01:47Z", "2026-06-01T14:00:00Z");
    create(records, Draft { validity, ..draft("c", 100) });
    for (hour, limit) in [(11, None), (12, Some(100)), (13, Some(100)), (14, Some(100)), (15, None)] {
        assert_eq!(minute(records, &format!("2026-06-01-{hour}")), limit, "hour {hour}");
    }
}
