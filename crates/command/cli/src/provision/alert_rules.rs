//! `tollway provision prometheus`: alert rules over the metrics of the catalogue.

use std::fmt::Write;

use super::watched::metrics;
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Print alert rules for Prometheus
///
/// Name the file in `rule_files` of Prometheus' config. Every rule looks at some minutes, so that it neither fires for a moment
/// nor flaps, and clears by itself. `severity` is `critical` where calls may be lost or refused, else `warning`. Needs no
/// config and no store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollway provision prometheus > tollway-alerts.yml
  promtool check rules tollway-alerts.yml
  tollway provision grafana > tollway.json    the dashboard to it")]
pub(super) struct Arguments {}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    context.output().bytes(rules().as_bytes())?;
    Ok(Exit::DONE)
}

#[derive(Clone, Copy)]
enum Severity {
    Critical,
    Warning,
}

struct Alert {
    name: &'static str,
    /// The condition, in PromQL. It covers some minutes itself: `for` would hide what comes and goes.
    condition: &'static str,
    severity: Severity,
    /// What happens, in a sentence with the labels' values.
    summary: &'static str,
    /// What it means and what to do.
    advice: &'static str,
}

use Severity::{Critical, Warning};

const ALERTS: [Alert; 19] = [
    Alert {
        name: "TollwayDown",
        condition: "avg_over_time(up{job=\"tollway\"}[5m]) < 0.5",
        severity: Critical,
        summary: "Prometheus cannot read the metrics of {{ $labels.instance }}",
        advice: "Is the process running, and its administration reachable? Name the job of your scrape config tollway.",
    },
    Alert {
        name: "TollwayStoreAway",
        condition: "max by (instance) (avg_over_time(tollway_store_degraded[5m])) > 0.2",
        severity: Critical,
        summary: "{{ $labels.instance }} decides without its store",
        advice: "Takes follow when_store_fails of their policies: a share of what was left, all, or none. The log names the cause; tollway doctor looks at the store.",
    },
    Alert {
        name: "TollwayStoreThrottled",
        condition: "max by (instance) (avg_over_time(tollway_store_throttled[10m])) > 0.3",
        severity: Warning,
        summary: "the store throttles {{ $labels.instance }}",
        advice: "Raise the capacity of the store, or spread takes over more subjects.",
    },
    Alert {
        name: "TollwayStoreSlow",
        condition: "max by (instance) (avg_over_time(tollway_acquisition_slow[10m])) > 0.5",
        severity: Warning,
        summary: "more than one in a hundred takes of {{ $labels.instance }} takes above 50 ms",
        advice: "Look at tollway_store_latency_seconds and at the network to the store.",
    },
    Alert {
        name: "TollwayStoreFilling",
        condition: "max(avg_over_time(tollway_store_memory_used_ratio[10m])) > 0.8",
        severity: Warning,
        summary: "the store uses more than 80 % of its memory",
        advice: "Full, it makes no accounts for new subjects. Raise maxmemory, or bound subjects_max and new_subjects.",
    },
    Alert {
        name: "TollwayVendorRefused",
        condition: "sum by (policy) (increase(tollway_incidents_total[10m])) > 0",
        severity: Critical,
        summary: "the vendor of {{ $labels.policy }} refused calls that had a permit",
        advice: "Its limit is lower than the config says, or another program uses the same account. tollway incidents shows the evidence.",
    },
    Alert {
        name: "TollwayApiHeld",
        condition: "avg by (api) (avg_over_time((tollway_api_cooldown_seconds > bool 0)[15m:30s])) > 0.8",
        severity: Warning,
        summary: "the vendor of {{ $labels.api }} has held calls back for most of 15 minutes",
        advice: "tollway_refusals_total says why: a quota of a day, a lock, an overload.",
    },
    Alert {
        name: "TollwayLimitExceeded",
        condition: "max by (policy, limit) (max_over_time(tollway_used_ratio[15m])) > 1 \
                    and max by (policy, limit) (avg_over_time(tollway_used_ratio[15m])) > 0.5",
        severity: Warning,
        summary: "callers ask for more than {{ $labels.limit }} of {{ $labels.policy }} grants",
        advice: "Takes are denied. Raise the amount if you may, let callers wait, or find who asks: tollway usage.",
    },
    Alert {
        name: "TollwayCallersWait",
        condition: "max by (policy) (avg_over_time(tollway_waiting_seconds[15m])) > 60",
        severity: Warning,
        summary: "callers of {{ $labels.policy }} wait for more than a minute",
        advice: "The limit is the bottleneck: tollway plan says how long the work takes.",
    },
    Alert {
        name: "TollwayNeverOver",
        condition: "sum(increase(tollway_never_over_violations_total[1h])) > 0",
        severity: Critical,
        summary: "a meter held more than its limit",
        advice: "This is a bug in Tollway: report it with the log of that moment.",
    },
    Alert {
        name: "TollwayPermitsLost",
        condition: "sum by (instance) (increase(tollway_permits_lost_total[30m])) > 0",
        severity: Warning,
        summary: "{{ $labels.instance }} could not give units back",
        advice: "They stay spent until their window ends. Was the store away?",
    },
    Alert {
        name: "TollwayConfigWrong",
        condition: "min by (instance) (min_over_time(tollway_config_wrong[2m])) == 1",
        severity: Warning,
        summary: "the config of {{ $labels.instance }} is wrong, and the one before it in force",
        advice: "tollway policy check names the line. A restart would fail.",
    },
    Alert {
        name: "TollwayNotesDropped",
        condition: "sum by (instance) (increase({__name__=~\"tollway_incidents_dropped_total|tollway_metrics_dropped_total\"}[30m])) > 0",
        severity: Warning,
        summary: "{{ $labels.instance }} could not deliver incidents or figures",
        advice: "The log names the destination: file, webhook, sns or cloudwatch.",
    },
    Alert {
        name: "TollwayOverloaded",
        condition: "sum by (instance) (increase(tollway_charges_denied_total[10m])) > 0",
        severity: Critical,
        summary: "{{ $labels.instance }} denies takes because the store does not answer in time",
        advice: "More takes are in flight than the store can answer. Add capacity, or lease hot policies.",
    },
    Alert {
        name: "TollwayWrongTokens",
        condition: "sum by (instance) (increase(tollway_wrong_tokens_total[15m])) > 10",
        severity: Warning,
        summary: "clients send wrong tokens to {{ $labels.instance }}",
        advice: "The log names their addresses. After a change of tokens these are programs that were not restarted.",
    },
    Alert {
        name: "TollwayPipelineEngineAway",
        condition: "max by (pipeline) (avg_over_time(tollway_pipeline_engine_up[5m])) < 0.5",
        severity: Critical,
        summary: "no worker of {{ $labels.pipeline }} reaches the engine that keeps its jobs",
        advice: "Workers keep finished answers and go on when it is back.",
    },
    Alert {
        name: "TollwayDeadLetters",
        condition: "max by (pipeline, stage) (min_over_time(tollway_pipeline_dead_letters[2m])) >= 10",
        severity: Warning,
        summary: "{{ $value }} dead letters wait in {{ $labels.stage }} of {{ $labels.pipeline }}",
        advice: "tollway pipeline dead list --group-by error says why; redrive or drop them.",
    },
    Alert {
        name: "TollwayPipelineStuck",
        condition: "max by (pipeline, stage) (min_over_time(tollway_pipeline_queue_depth[15m])) > 0 \
                    and max by (pipeline, stage) (increase(tollway_pipeline_calls_total[15m])) == 0 \
                    and max by (pipeline, stage) (max_over_time(tollway_pipeline_paused[15m])) == 0",
        severity: Warning,
        summary: "jobs wait in {{ $labels.stage }} of {{ $labels.pipeline }}, and none was started for 15 minutes",
        advice: "tollway pipeline why says what they wait for: quota, a worker, a hold.",
    },
    Alert {
        name: "TollwayPipelineFails",
        condition: "max by (pipeline, stage) (increase(tollway_pipeline_failure_total[15m])) \
                    > 0.5 * max by (pipeline, stage) (increase(tollway_pipeline_calls_total[15m]))",
        severity: Warning,
        summary: "more than half of the attempts in {{ $labels.stage }} of {{ $labels.pipeline }} fail",
        advice: "tollway pipeline dead list --group-by error shows their errors. Pause the stage while you look.",
    },
];

/// All rules, as Prometheus reads them.
fn rules() -> String {
    let mut text =
        "# Made by `tollway provision prometheus`.\ngroups:\n  - name: tollway\n    rules:\n".to_owned();
    for alert in ALERTS.iter().filter(|alert| is_known(alert)) {
        let severity = match alert.severity {
            Critical => "critical",
            Warning => "warning",
        };
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let _ = write!(
            text,
            "      - alert: {}\n        expr: {}\n        labels:\n          severity: {severity}\n        annotations:\n          \
             summary: {}\n          description: {}\n",
            alert.name,
            quoted(alert.condition),
            quoted(alert.summary),
            quoted(alert.advice),
        );
    }
    text
}

/// Whether this build exports all metrics that the condition names.
fn is_known(alert: &Alert) -> bool {
    let known = metrics();
    names_in(alert.condition).all(|name| known.iter().any(|metric| metric.name == name))
}

fn names_in(condition: &str) -> impl Iterator<Item = &str> {
    let words = condition.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("tollway_") || word.starts_with("RateLimiter"))
}

#[cfg(all(test, feature = "pipeline"))]
mod tests {
    use super::*;

    #[test]
    fn conditions_name_metrics_of_the_catalogue() {
        for alert in &ALERTS {
            assert!(is_known(alert), "{}: {}", alert.name, alert.condition);
            assert!(names_in(alert.condition).count() > 0 || alert.name == "TollwayDown", "{}", alert.name);
        }
    }
}
