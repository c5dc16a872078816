//! What `/v1/live` sends: the whole state of the first screen, and what changed of it since a second ago.
//!
//! A field that is missing is empty, zero, false or unknown. Times are milliseconds since 1970. It has no subject and no
//! data of a job.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// The state of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When.
    pub at: u64,
    /// Since when the process knows what it shows.
    pub since: u64,
    /// The process.
    pub process: Process,
    /// What a newcomer needs to know.
    pub sentence: Sentence,
    /// Sums over all policies.
    pub totals: Totals,
    /// The fullest limits.
    pub rows: Vec<Row>,
    /// The apis that are called.
    pub apis: Vec<ApiRow>,
    /// The pipelines.
    pub pipelines: Vec<PipelineRow>,
    /// The last alarms, the newest first.
    pub alarms: Vec<Alarm>,
    /// Calls that a vendor refused although they had a permit.
    pub incidents: Incidents,
}

/// What changed: whole rows, and every other part that is different.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// When.
    pub at: u64,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<Sentence>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// Rows that are new or different.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The ids of rows that are no longer there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apis: Option<Vec<ApiRow>>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipelines: Option<Vec<PipelineRow>>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarms: Option<Vec<Alarm>>,
    /// As in [`Snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incidents: Option<Incidents>,
}

/// The process that shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Its command: `serve`, `pipeline run`, `demo` or `dashboard`.
    pub command: String,
    /// Its version.
    pub version: String,
    /// Its id.
    pub pid: u32,
    /// The URL of its store, without a password.
    pub store: String,
    /// Since when the store, or one of its nodes, does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_away_since: Option<u64>,
    /// The nodes of the store that do not answer, while others do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub store_nodes_away: Vec<String>,
    /// Whether there is a token that may change something.
    pub can_write: bool,
}

/// The one sentence above the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentence {
    /// The sentence. Names in it stand in backquotes.
    pub text: String,
    /// How urgent it is.
    pub level: Level,
}

/// How urgent something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing to do.
    #[default]
    Ok,
    /// Worth a look.
    Attention,
    /// An operator should act.
    Trouble,
}

/// Sums over all policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Takes that were granted a second, over the last seconds.
    pub granted_per_second: f64,
    /// Takes that were denied a second.
    pub denied_per_second: f64,
    /// Takes that wait in this process.
    pub waiting: u64,
    /// Policies in force.
    pub policies: u64,
    /// Policies that this process used since its start.
    pub policies_used: u64,
    /// Of those, how many are counted together and so have no rows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub policies_without_rows: u64,
    /// Limits that were used in the last five minutes, or are in the snapshot.
    pub rows: u64,
    /// Open streams.
    pub viewers: u64,
}

/// One limit of one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `POLICY/LIMIT`.
    pub id: String,
    /// The policy.
    pub policy: String,
    /// The limit.
    pub limit: String,
    /// The limit as a config writes it.
    pub text: String,
    /// What it counts.
    pub unit: String,
    /// The amount in force.
    pub amount: u64,
    /// The most that fits at once: the burst of a bucket, else the amount.
    pub capacity: u64,
    /// What is used; missing until the store has answered once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// When it resets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<u64>,
    /// Who says so.
    pub seen_by: SeenBy,
    /// When it was read, if that is more than three seconds ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<u64>,
    /// Until when the vendor holds calls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<u64>,
    /// Takes that wait in this process.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// How long a new caller would wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Takes granted under the policy in five minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted_5m: u64,
    /// Takes that this limit denied in five minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied_5m: u64,
    /// 60 characters, one each 5 s, the newest last: `-` is unknown, `A-Za-z0-9+/` is 0 to 63 of the capacity.
    pub spark: String,
    /// What else holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// Of a policy with subjects. Then `used` is that of the fullest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subjects: Option<RowSubjects>,
}

/// Who knows a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenBy {
    /// The store: it is true for all processes.
    Store,
    /// This process alone.
    #[default]
    Process,
}

/// What holds for a limit beside its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its policy never denies.
    Shadow,
    /// An operator set it to 0.
    Stopped,
    /// The store does not answer, and takes are decided without it.
    Degraded,
    /// The vendor holds calls back.
    Held,
}

/// The subjects of a policy, without their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowSubjects {
    /// How many used it in five minutes, about; missing if too many policies have subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_5m: Option<u64>,
    /// How full the fullest is that this process knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest_percent: Option<u64>,
}

/// One api.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ApiRow {
    /// Its name.
    pub api: String,
    /// Its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its rate in force, in calls a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_second: Option<f64>,
    /// The vendor's limit, as it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_per_second: Option<f64>,
    /// Until when the vendor holds calls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<u64>,
    /// The vendor's refusals since the start, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
    /// The vendor's refusals in five minutes, as far as they are kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_5m: u64,
    /// Denials of our limits in five minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied_5m: u64,
}

/// One pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PipelineRow {
    /// Its name.
    pub name: String,
    /// Its stages, the first one first.
    pub stages: Vec<StageRow>,
    /// When all may be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<u64>,
    /// Why no end is in sight, although there are jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_no_end: Option<String>,
    /// Dead letters.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dead: u64,
    /// Since when its engine does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_away_since: Option<u64>,
}

/// One stage of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageRow {
    /// Its name.
    pub name: String,
    /// Jobs that can be claimed.
    pub ready: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that wait for their time.
    pub delayed: u64,
    /// Jobs that wait for their group.
    pub held: u64,
    /// Dead letters.
    pub dead: u64,
    /// Jobs done.
    pub done: u64,
    /// Jobs done a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<f64>,
    /// Why no job is claimed, if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// When its jobs may be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<u64>,
}

/// Something that an operator should know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    /// Its id within the process.
    pub id: String,
    /// What kind of alarm.
    pub kind: String,
    /// What is wrong.
    pub text: String,
    /// Since when.
    pub since: u64,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleared: Option<u64>,
}

/// The incidents of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incidents {
    /// How many are kept.
    pub count: u64,
    /// When the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Snapshot {
    /// What is different in `new`.
    pub fn changes_to(&self, new: &Self) -> Changes {
        fn changed<T: PartialEq + Clone>(old: &T, new: &T) -> Option<T> {
            (old != new).then(|| new.clone())
        }
        let known: HashMap<&str, &Row> = self.rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let is_new = |row: &&Row| known.get(row.id.as_str()) != Some(row);
        let shown: HashSet<&str> = new.rows.iter().map(|row| row.id.as_str()).collect();
        let gone = self.rows.iter().map(|row| &row.id).filter(|id| !shown.contains(id.as_str()));
        Changes {
            at: new.at,
            since: changed(&self.since, &new.since),
            process: changed(&self.process, &new.process),
            sentence: changed(&self.sentence, &new.sentence),
            totals: changed(&self.totals, &new.totals),
            rows: new.rows.iter().filter(is_new).cloned().collect(),
            gone: gone.cloned().collect(),
            apis: changed(&self.apis, &new.apis),
            pipelines: changed(&self.pipelines, &new.pipelines),
            alarms: changed(&self.alarms, &new.alarms),
            incidents: changed(&self.incidents, &new.incidents),
        }
    }

    /// Takes in what changed. New rows come last.
    pub fn apply(&mut self, changes: Changes) {
        fn put<T>(place: &mut T, changed: Option<T>) {
            if let Some(new) = changed {
                *place = new;
            }
        }
        self.at = changes.at;
        put(&mut self.since, changes.since);
        put(&mut self.process, changes.process);
        put(&mut self.sentence, changes.sentence);
        put(&mut self.totals, changes.totals);
        put(&mut self.apis, changes.apis);
        put(&mut self.pipelines, changes.pipelines);
        put(&mut self.alarms, changes.alarms);
        put(&mut self.incidents, changes.incidents);
        self.rows.retain(|row| !changes.gone.contains(&row.id));
        for row in changes.rows {
            match self.rows.iter_mut().find(|known| known.id == row.id) {
                Some(known) => *known = row,
                None => self.rows.push(row),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, used: u64) -> Row {
        Row { id: id.to_owned(), used: Some(used), ..Row::default() }
    }

    #[test]
    fn changes_applied_to_the_old_state_make_the_new_one() {
        let old =
            Snapshot { at: 1, rows: vec![row("a", 1), row("b", 1), row("c", 1)], ..Snapshot::default() };
        let new = Snapshot {
            at: 2,
            rows: vec![row("a", 1), row("c", 2), row("d", 1)],
            totals: Totals { waiting: 3, ..Totals::default() },
            ..Snapshot::default()
        };
        let changes = old.changes_to(&new);
        assert_eq!(changes.rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(changes.gone, ["b"]);
        assert!(changes.process.is_none() && changes.totals.is_some());
        let mut state = old;
        state.apply(changes);
        assert_eq!(state, new);
    }

    #[test]
    fn a_second_without_changes_is_a_few_bytes() {
        let state = Snapshot { rows: vec![row("a", 1)], ..Snapshot::default() };
        let later = Snapshot { at: 7, ..state.clone() };
        assert_eq!(serde_json::to_string(&state.changes_to(&later)).unwrap(), r#"{"at":7}"#);
    }
}
