//! Whether the store answers, by which clock, and whether it can write and forget.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};
use tollway::config::StoreClock;
use tollway::core::{Fault, Policy, Span, Timestamp, WhenStoreFails};
use tollway::{Limiter, StoreUrl, TakeError};
#[cfg(feature = "aws")]
use tollway_dynamodb::minute::Layout;

use super::finding::{Finding, Findings};
use crate::context::Context;
#[cfg(feature = "aws")]
use crate::provision::table::{TableFound, TableWanted, Tables};
use crate::words;

/// How far the store's clock may be from this machine's: more than two clocks kept by NTP ever differ.
const CLOCK_SKEW_MAX: Span = Span::from_secs(1);

/// The store is asked for the usage of a policy that does not exist. Reading changes nothing.
const POLICY: &str = "doctor";
const LIMIT: &str = "1 requests / second from first call";

/// The key of a table of lines.
#[cfg(feature = "aws")]
const KEY_OF_LINES: (&str, &str) = ("key", "S");

/// Asks a store across a network as a limiter does. Returns whether it answered.
pub(super) async fn look_at(store: &StoreUrl, context: &Context, findings: &mut Findings) -> bool {
    findings.looked_at(format!("store {store}"));
    let before = context.now();
    let seen = peek(store).await;
    let after = context.now();
    match seen {
        Ok(Some(time)) if store.kind().clock == StoreClock::Server => {
            findings.findings.extend(clock_skew(before, time, after));
            true
        }
        Ok(_) => true,
        Err(error) => {
            findings.add(Finding::problem(
                "store-unreachable",
                format!("the store {store} does not answer: {error}"),
                "nothing is counted; each policy does what its `when_store_fails` says, and consumers are let through \
                 unless theirs says otherwise",
                "see that it runs and that this machine reaches it (`redis-cli -h HOST -p PORT ping` for Redis), then check the \
                 user, the password and TLS in [store] url",
            ));
            false
        }
    }
}

/// The store's time, if it has one. A layout that refuses such a policy has answered, too.
async fn peek(store: &StoreUrl) -> Result<Option<Timestamp>, String> {
    let policy = Policy::new(POLICY, [LIMIT]).map_err(|error| error.to_string())?;
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed);
    let builder = Limiter::builder().fixed_limits().store_at(store).map_err(|error| error.to_string())?;
    let limiter = builder.with_policy(policy).map_err(|error| error.to_string())?.build();
    match limiter.usage(POLICY).subject(POLICY).await {
        Ok(usage) => Ok(usage.limits.first().map(|limit| limit.as_of)),
        Err(TakeError::Store(error)) if error.fault != Fault::Caller => Err(error.to_string()),
        Err(_) => Ok(None),
    }
}

/// The store's time is between two readings of this machine's clock, or one of the clocks is wrong.
fn clock_skew(before: Timestamp, store: Timestamp, after: Timestamp) -> Option<Finding> {
    let (skew, direction) = match store < before {
        true => (before.since(store), "behind"),
        false => (store.since(after), "ahead of"),
    };
    (skew > CLOCK_SKEW_MAX).then(|| {
        let skew = words::span(skew);
        Finding::problem(
            "clock-skew",
            format!("the store's clock is {skew} {direction} this machine's"),
            "windows begin and end by the store's clock, records and logs by this machine's: around the full hour they \
             disagree, and vendors see calls in another window than the one they were granted for",
            "keep both clocks by NTP: `timedatectl set-ntp true`, or chrony",
        )
    })
}

/// Each process counts for itself.
pub(super) fn in_memory() -> Finding {
    Finding::note(
        "store-in-memory",
        "meters are kept in memory",
        "each process counts by itself and forgets when it ends: two servers allow twice as much",
        "name a store that all of them share, as in [store] url = \"redis://HOST\"",
    )
}

/// Looks whether the file of a store can be written, or made.
pub(super) fn look_at_file(path: &Path, findings: &mut Findings) {
    findings.looked_at(format!("store file:{}", path.display()));
    if let Err(error) = writable(path) {
        findings.add(Finding::problem(
            "state-not-writable",
            format!("the store's file {} cannot be written: {error}", path.display()),
            "every take fails, or is answered as `when_store_fails` says, and nothing is counted",
            "let the user who runs the processes write it and its folder, or name another: [store] url = \"file:PATH\"",
        ));
    }
}

/// Opens a file that exists, without changing it; otherwise checks the folder that it would be made in.
fn writable(path: &Path) -> io::Result<()> {
    if path.exists() {
        return OpenOptions::new().read(true).write(true).open(path).map(drop);
    }
    let above = path.ancestors().skip(1).map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    let Some(folder) = above.into_iter().find(|folder| folder.exists()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    if !folder.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is no folder", folder.display()),
        ));
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Looks whether old items of a DynamoDB table expire. What the role may not read is left out.
#[cfg(feature = "aws")]
pub(super) async fn look_at_table(store: &StoreUrl, findings: &mut Findings) {
    let Some(options) = store.dynamodb() else { return };
    let key = options.layout().map_or(&[KEY_OF_LINES][..], Layout::key);
    let key = key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    let wanted = TableWanted { name: options.table().to_owned(), key };
    let found = Tables::new(options.connect()).await.look(&wanted).await;
    if let Ok(TableFound::WithoutTtl { .. }) = found {
        findings.add(Finding::problem(
            "items-never-vanish",
            format!("the table {} has no TTL: its old items never vanish", wanted.name),
            "limits hold all the same, but every subject that ever came stays in the table and is paid for",
            "tollway provision aws --apply turns it on",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_if_it_is_off_by_more_than_the_question_took() {
        let at = Timestamp::from_millis;
        let found = |store| clock_skew(at(10_000), at(store), at(12_000)).map(|finding| finding.what);
        for right in [9_000, 10_000, 11_000, 12_000, 13_000] {
            assert_eq!(found(right), None);
        }
        assert_eq!(found(8_000).unwrap(), "the store's clock is 2 s behind this machine's");
        assert!(found(3_612_000).unwrap().contains("1 h ahead of this machine's"));
    }

    #[test]
    fn a_file_can_be_written_where_a_folder_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/b/state");
        assert!(writable(&state).is_ok());
        assert!(!folder.path().join("a").exists(), "nothing is made");
        std::fs::write(folder.path().join("a"), "").unwrap();
        assert!(writable(&state).unwrap_err().to_string().contains("is no folder"));
        assert!(writable(folder.path()).is_err(), "a folder is no file");
        assert!(writable(Path::new("state-that-is-not-there")).is_ok());
    }
}
