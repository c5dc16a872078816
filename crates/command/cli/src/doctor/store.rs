//! Checks that the store answers, its clock, its file permissions and its expiry.

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
use super::store_url::FullStoreUrl;
use crate::context::Context;
use crate::humanize;
#[cfg(feature = "aws")]
use crate::provision::aws::account::Account;
#[cfg(feature = "aws")]
use crate::provision::aws::table::{TableFound, TableSpec, Tables};

/// The largest accepted clock difference: more than two NTP-synchronised clocks ever differ.
const CLOCK_SKEW_MAX: Span = Span::from_secs(1);

/// A policy that does not exist: reading its usage changes nothing.
const POLICY: &str = "doctor";
const LIMIT: &str = "1 requests / second from first call";

/// The key of a table of accounts.
#[cfg(feature = "aws")]
const ACCOUNT_KEY: (&str, &str) = ("key", "S");

const WHY_NOT_COUNTED: &str = "nothing is counted; each policy follows its `when_store_fails`, and consumers are not \
     limited unless theirs is \"local\" or \"closed\"";

/// Reads from a network store as a limiter does. Returns whether it answered.
pub(super) async fn look_at(
    store: &StoreUrl,
    written: &FullStoreUrl,
    context: &Context,
    findings: &mut Findings,
) -> bool {
    findings.checked(format!("store {store}"));
    let limiter = match limiter(store) {
        Ok(limiter) => limiter,
        Err(error) => {
            findings.add(unusable(store, &error));
            return false;
        }
    };
    let before = context.now();
    let seen = peek(&limiter).await;
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
                format!("the store {store} cannot be read: {error}"),
                WHY_NOT_COUNTED,
                fix(store, written, &error),
            ));
            false
        }
    }
}

/// A store that does not start with this server, such as a Redis that is too old for its layout.
fn unusable(store: &StoreUrl, error: &str) -> Finding {
    Finding::problem(
        "store-unusable",
        format!("the store {store} cannot be used: {error}"),
        "commands and servers with this config do not start; what runs already follows `when_store_fails`",
        "use a newer server, or a [store] url that this one can serve",
    )
}

/// What to do about a store that cannot be read.
fn fix(store: &StoreUrl, written: &FullStoreUrl, error: &str) -> String {
    match store {
        StoreUrl::Redis(_) => {
            let ping = redis_ping(written);
            format!("check that it runs and is reachable: {ping}; then check user, password and TLS in [store] url")
        }
        // The service answers: the table is missing.
        StoreUrl::DynamoDb(_) if error.contains("ResourceNotFoundException") => {
            "create the table: tollway provision aws --apply; or check its name, region and endpoint in [store] url"
                .to_owned()
        }
        StoreUrl::DynamoDb(_) => "check region and endpoint in [store] url, and the credentials; `tollway provision aws \
                                  --iam worker` prints the permissions that they need"
            .to_owned(),
        _ => "check that it runs and is reachable, then check user, password, database and TLS in [store] url"
            .to_owned(),
    }
}

#[cfg(feature = "redis")]
fn redis_ping(written: &FullStoreUrl) -> String {
    written.redis().and_then(super::redis::ping).unwrap_or_default()
}

#[cfg(not(feature = "redis"))]
fn redis_ping(_: &FullStoreUrl) -> String {
    String::new()
}

fn limiter(store: &StoreUrl) -> Result<Limiter, String> {
    let policy = Policy::new(POLICY, [LIMIT]).map_err(|error| error.to_string())?;
    let policy = policy.with_when_store_fails(WhenStoreFails::Closed);
    let builder = Limiter::builder().fixed_limits().store_at(store).map_err(|error| error.to_string())?;
    Ok(builder.with_policy(policy).map_err(|error| error.to_string())?.build())
}

/// The store's time, if it has a clock. A layout that refuses the policy has answered, too.
async fn peek(limiter: &Limiter) -> Result<Option<Timestamp>, String> {
    match limiter.usage(POLICY).subject(POLICY).await {
        Ok(usage) => Ok(usage.limits.first().map(|limit| limit.as_of)),
        Err(TakeError::Store(error)) if error.fault != Fault::Caller => Err(error.to_string()),
        Err(_) => Ok(None),
    }
}

/// The store's time must lie between two readings of this machine's clock.
fn clock_skew(before: Timestamp, store: Timestamp, after: Timestamp) -> Option<Finding> {
    let (skew, direction) = match store < before {
        true => (before.since(store), "behind"),
        false => (store.since(after), "ahead of"),
    };
    (skew > CLOCK_SKEW_MAX).then(|| {
        let skew = humanize::span(skew);
        Finding::problem(
            "clock-skew",
            format!("the store's clock is {skew} {direction} this machine's"),
            "windows follow the store's clock, records and logs this machine's: around the full hour they disagree, and a \
             vendor may count a call in another window than Tollway",
            "synchronise both clocks with NTP: `timedatectl set-ntp true`, or chrony",
        )
    })
}

/// In memory, each process counts separately.
pub(super) fn in_memory() -> Finding {
    Finding::note(
        "store-in-memory",
        "usage is kept in memory",
        "each process counts separately and starts at zero: two servers allow twice as much",
        "use a shared store, e.g. [store] url = \"redis://HOST\"",
    )
}

/// Checks that the store's file can be written or created.
pub(super) fn look_at_file(path: &Path, findings: &mut Findings) {
    findings.checked(format!("store file:{}", path.display()));
    if let Err(error) = writable(path) {
        findings.add(Finding::problem(
            "state-not-writable",
            format!("cannot write the store's file {}: {error}", path.display()),
            "nothing is counted; takes fail or follow `when_store_fails`",
            "give the processes' user write permission on it and its folder, or use another file: [store] url = \"file:PATH\"",
        ));
    }
}

/// Checks that the date of this machine is not behind the newest time in the store's file, or in a file of jobs.
pub(super) fn look_at_clock(what: &str, time: Option<Timestamp>, context: &Context, findings: &mut Findings) {
    let behind = time.and_then(|time| context.clock_behind(time));
    findings.findings.extend(behind.map(|behind| {
        let behind = humanize::span(behind);
        Finding::problem(
            "clock-behind",
            format!("the clock of this machine is {behind} behind the newest time in {what}"),
            format!(
                "time goes on from there by the machine's uptime: nothing stands still and nothing is granted twice, but \
                 windows end {behind} earlier than the vendor's, and a vendor may count a call in another window than Tollway"
            ),
            "synchronise the clock with NTP: `timedatectl set-ntp true`, or chrony. If it is right now, it was ahead before: \
             stop all processes and remove the store's file; that resets all usage",
        )
    }));
}

/// Opens an existing file without changing it, else checks the folder where it would be created.
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
            format!("{} is not a folder", folder.display()),
        ));
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Checks that a DynamoDB table has TTL. Without the permission to read it, there is no finding.
#[cfg(feature = "aws")]
pub(super) async fn look_at_table(store: &StoreUrl, findings: &mut Findings) {
    let Some(options) = store.dynamodb() else { return };
    let key = options.layout().map_or(&[ACCOUNT_KEY][..], Layout::key);
    let key = key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    let wanted = TableSpec { name: options.table().to_owned(), key };
    let Ok(account) = Account::find(options.connect()).await else { return };
    let found = Tables::of(&account).look(&wanted).await;
    if let Ok(TableFound::WithoutTtl { .. }) = found {
        findings.add(Finding::problem(
            "items-never-vanish",
            format!("the table {} has no TTL: old items never expire", wanted.name),
            "limits still hold, but the table and its cost grow with every new subject",
            "run `tollway provision aws --apply`",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_skew_allows_for_the_round_trip() {
        let at = Timestamp::from_millis;
        let found = |store| clock_skew(at(10_000), at(store), at(12_000)).map(|finding| finding.what);
        for right in [9_000, 10_000, 11_000, 12_000, 13_000] {
            assert_eq!(found(right), None);
        }
        assert_eq!(found(8_000).unwrap(), "the store's clock is 2 s behind this machine's");
        assert!(found(3_612_000).unwrap().contains("1 h ahead of this machine's"));
    }

    #[test]
    fn file_is_writable_if_its_folder_can_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/b/state");
        assert!(writable(&state).is_ok());
        assert!(!folder.path().join("a").exists(), "nothing is created");
        std::fs::write(folder.path().join("a"), "").unwrap();
        assert!(writable(&state).unwrap_err().to_string().contains("is not a folder"));
        assert!(writable(folder.path()).is_err(), "a folder is not a file");
        assert!(writable(Path::new("state-that-is-not-there")).is_ok());
    }
}
