//! What a server sent.

use tollway_dashboard::snapshot::Snapshot;

/// When the snapshot was made.
pub(crate) const AT: u64 = 1_790_000_000_000;

/// A bottleneck, a stopped limit, one that the vendor holds, subjects, a shadow, two pipelines and an alarm.
pub(crate) fn busy() -> Snapshot {
    let mut of_subjects = row("consumers", "per_minute", 60, 56, 0, 0, 0, &[]);
    of_subjects["subjects"] = serde_json::json!({"seen_5m": 120, "fullest_percent": 93});
    of_subjects["seen_by"] = "process".into();
    let rows = [
        row("adobe", "requests_per_minute", 200, 200, 38, 12_000, 12, &[]),
        row("gemini", "tokens_per_minute", 250_000, 231_000, 0, 0, 0, &[]),
        row("partner", "requests_per_hour", 1_000, 0, 0, 0, 4, &["stopped"]),
        row("notion", "rate", 3, 3, 2, 9_000, 0, &["held"]),
        row("trial", "requests_per_day", 50, 61, 0, 0, 0, &["shadow"]),
        of_subjects,
    ];
    serde_json::from_value(serde_json::json!({
        "at": AT, "since": AT - 3_600_000,
        "process": {"command": "serve", "version": "0.1.0", "pid": 1, "store": "redis://127.0.0.1:6379/", "can_write": false},
        "sentence": {"text": "`adobe` is the bottleneck: used up, 38 waiting, next call in 12 s; pipeline `pdf` done at 14:32 UTC; 3 dead letters", "level": "attention"},
        "totals": {"granted_per_second": 12.5, "denied_per_second": 0.2, "waiting": 38, "policies": 10_000, "policies_used": 312, "rows": 6, "viewers": 3},
        "rows": rows,
        "apis": [{"api": "notion", "policy": "notion", "rate_per_second": 2.1, "ceiling_per_second": 3.0, "held_until": AT + 9_000, "refused": {"rate": 3}, "refused_5m": 1, "denied_5m": 4}],
        "pipelines": [{"name": "pdf", "ends_at": AT + 100_000, "dead": 3, "stages": [
            {"name": "autotag", "ready": 12, "running": 2, "delayed": 1, "held": 0, "dead": 3, "done": 500, "rate_per_minute": 180.0},
            {"name": "post", "ready": 0, "running": 0, "delayed": 0, "held": 0, "dead": 0, "done": 488, "paused": "by an operator"}
        ]}],
        "alarms": [
            {"id": "a2", "kind": "dead_letters", "text": "3 dead letters in autotag of pdf", "since": AT - 600_000},
            {"id": "a1", "kind": "store", "text": "the store was away", "since": AT - 900_000, "cleared": AT - 800_000}
        ],
        "incidents": {"count": 2, "last": AT - 60_000}
    }))
    .unwrap()
}

#[allow(clippy::too_many_arguments, reason = "a row of a table")]
fn row(
    policy: &str,
    limit: &str,
    capacity: u64,
    used: u64,
    waiting: u64,
    wait_ms: u64,
    denied: u64,
    modes: &[&str],
) -> serde_json::Value {
    serde_json::json!({
        "id": format!("{policy}/{limit}"), "policy": policy, "limit": limit, "text": "", "unit": "requests",
        "amount": capacity, "capacity": capacity, "used": used, "resets_at": AT + 42_000, "seen_by": "store",
        "waiting": waiting, "wait_ms": wait_ms, "granted_5m": 900, "denied_5m": denied, "modes": modes,
        "held_until": modes.contains(&"held").then_some(AT + 9_000),
        "spark": format!("{}{}", "-".repeat(20), "AFKPUZejoty38//AFKPUZejoty38//AFKPUZejot")
    })
}
