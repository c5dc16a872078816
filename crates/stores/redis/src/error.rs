//! Errors of Redis: their fault, and whether the call may be retried.

use redis::{ErrorKind, RedisError};
use tollway_core::{Fault, Retry, StoreError};

/// Nothing was sent yet: there is no connection.
pub(crate) fn not_connected(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => answered(code, error.detail().unwrap_or_default()),
        None if error.kind() == ErrorKind::AuthenticationFailed => answered("WRONGPASS", &error.to_string()),
        None => failed(Fault::Network, Retry::Safe, format!("no connection to Redis: {error}")),
    }
}

/// The call was sent, and this came back instead of an answer.
pub(crate) fn not_answered(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => answered(code, error.detail().unwrap_or_default()),
        None if error.is_connection_refusal() => not_connected(error),
        None => failed(Fault::Network, Retry::Unclear, format!("no answer from Redis: {error}")),
    }
}

/// The server answered with an error.
pub(crate) fn answered(code: &str, detail: &str) -> StoreError {
    let said =
        |fault, retry, advice: &str| failed(fault, retry, format!("Redis says {code} {detail}{advice}"));
    match code {
        "MOVED" | "ASK" => {
            let advice = "; if the server is one of a Cluster, the URL begins with redis+cluster://";
            said(Fault::Store, Retry::Safe, advice)
        }
        // None of them has run the script's writes: a write that is not allowed stops it at its first.
        "LOADING" | "BUSY" | "READONLY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "NOREPLICAS"
        | "NOSCRIPT" => said(Fault::Store, Retry::Safe, ""),
        // It answers, reads, and decides on what it need not write. Asked again at once, it would say the same.
        "OOM" => said(Fault::Full, Retry::Useless, "; raise maxmemory"),
        "MISCONF" => said(Fault::Full, Retry::Useless, "; make room on its disk"),
        // The script's codes for what only a full server makes it refuse.
        "SHARED" => said(Fault::Caller, Retry::Useless, "; take for each of them separately"),
        "LOST" => said(Fault::Account, Retry::Useless, ""),
        "NOAUTH" | "WRONGPASS" => {
            let advice = "; give the user and password of the server in the store's URL, as in redis://USER:PASSWORD@HOST";
            said(Fault::Store, Retry::Useless, advice)
        }
        "NOPERM" => {
            let advice = "; the user needs EVALSHA, EVAL, MGET, SET, TIME, HGETALL, HSET, HDEL and the keys under the prefix";
            said(Fault::Store, Retry::Useless, advice)
        }
        "CROSSSLOT" => {
            let advice = "; on a Cluster a take needs its accounts in one slot: write `slot = \"NAME\"` with the same \
                          name under each of its policies";
            said(Fault::Caller, Retry::Useless, advice)
        }
        // Our script's word for a limit of a kind that it does not know. Not the store's fault, so that no fallback grants.
        "KIND" => {
            said(Fault::Caller, Retry::Useless, "; nothing was decided: this limit cannot be kept in Redis")
        }
        // LINE is the script's code for a stored value that it cannot read.
        "LINE" | "WRONGTYPE" => {
            let advice =
                "; a key of this account holds a value that Tollway did not write: DEL it to start over";
            said(Fault::Account, Retry::Useless, advice)
        }
        // A copy that an outage held up. The call itself was sent again, or will be.
        "OUTDATED" => said(Fault::Network, Retry::Safe, ""),
        "OVERTAKEN" => said(Fault::Account, Retry::Useless, ""),
        _ => said(Fault::Store, Retry::Useless, ""),
    }
}

/// A server without room refused a call that needs some.
pub(crate) fn full() -> StoreError {
    answered("OOM", "it has no room for this call")
}

/// The answer is none that the script gives.
pub(crate) fn not_understood(what: &str) -> StoreError {
    failed(Fault::Store, Retry::Useless, format!("Redis gave an unexpected answer: {what}"))
}

/// What the caller gave is not right.
pub(crate) fn wrong(message: String) -> StoreError {
    failed(Fault::Caller, Retry::Useless, message)
}

fn failed(fault: Fault, retry: Retry, message: String) -> StoreError {
    StoreError { fault, retry, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_servers_are_retryable_and_refusals_are_not() {
        for (code, retry) in [
            ("LOADING", Retry::Safe),
            ("READONLY", Retry::Safe),
            ("OOM", Retry::Useless),
            ("MISCONF", Retry::Useless),
            ("NOAUTH", Retry::Useless),
            ("NOPERM", Retry::Useless),
            ("CROSSSLOT", Retry::Useless),
            ("KIND", Retry::Useless),
            ("ERR", Retry::Useless),
        ] {
            assert_eq!(answered(code, "").retry, retry, "{code}");
        }
        assert_eq!(answered("CROSSSLOT", "").fault, Fault::Caller);
        assert_eq!(answered("KIND", "").fault, Fault::Caller);
    }

    /// G7: missing permissions affect every account; an unreadable account says nothing about others.
    #[test]
    fn unusable_accounts_are_distinguished_from_permission_errors() {
        for (code, fault) in [
            ("NOAUTH", Fault::Store),
            ("WRONGPASS", Fault::Store),
            ("NOPERM", Fault::Store),
            ("ERR", Fault::Store),
            ("OOM", Fault::Full),
            ("MISCONF", Fault::Full),
            ("LINE", Fault::Account),
            ("WRONGTYPE", Fault::Account),
        ] {
            assert_eq!(
                (answered(code, "").fault, answered(code, "").retry),
                (fault, Retry::Useless),
                "{code}"
            );
        }
    }
}
