//! What the writer knows between statements: the stages, and the counters that this transaction changed.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use tollway_core::{Name, Timestamp};

use super::clock::KeptClock;
use super::error::Failure;
use super::rows::time;
use crate::bounds::STAGES_MAX;
use crate::engine::counters::Kind;
use crate::job::transition::waiting;
use crate::{EngineError, State};

/// A stage as it is stored.
pub(super) struct Stage {
    pub(super) id: i64,
    pub(super) name: Name,
    pub(super) paused: bool,
    /// The ids of the stages that groups must have left.
    pub(super) after: Vec<i64>,
}

/// The writer's connection within a transaction.
pub(super) struct Session<'c> {
    pub(super) connection: &'c Connection,
    /// A job may have become ready.
    pub(super) woke: bool,
    /// None: read them first. Only this process writes, so they stay right until it rolls back.
    stages: Option<Vec<Stage>>,
    /// Changes of counters: stage, kind, by how much.
    changes: Vec<(i64, i64, i64)>,
    clock: Option<KeptClock>,
    /// Groups of which a job entered or left a stage in this operation.
    moved_groups: Vec<(String, Timestamp)>,
}

impl<'c> Session<'c> {
    pub(super) fn new(connection: &'c Connection, clock: Option<KeptClock>) -> Self {
        Self { connection, woke: false, stages: None, changes: Vec::new(), clock, moved_groups: Vec::new() }
    }

    /// Every stage.
    pub(super) fn stages(&mut self) -> Result<&[Stage], Failure> {
        let stages = match self.stages.take() {
            Some(stages) => stages,
            None => read_stages(self.connection)?,
        };
        Ok(self.stages.insert(stages))
    }

    /// The stage of this name, if any job has entered it, or it was set.
    pub(super) fn stage(&mut self, name: &Name) -> Result<Option<&Stage>, Failure> {
        Ok(self.stages()?.iter().find(|stage| stage.name == *name))
    }

    /// The id of the stage of this name, which is made if it is new.
    pub(super) fn stage_id(&mut self, name: &Name) -> Result<i64, Failure> {
        if let Some(stage) = self.stage(name)? {
            return Ok(stage.id);
        }
        if self.stages()?.len() >= STAGES_MAX {
            let message = format!("stage {} would be one more than the {STAGES_MAX} allowed", name.as_str());
            return Err(EngineError::caller(message).into());
        }
        self.connection.prepare_cached("INSERT INTO stages (name) VALUES (?1)")?.execute([name.as_str()])?;
        self.stages = None;
        Ok(self.connection.last_insert_rowid())
    }

    /// The stages were changed: they are read again.
    pub(super) fn stages_changed(&mut self) {
        self.stages = None;
    }

    pub(super) fn count(&mut self, stage: i64, kind: Kind, by: i64) {
        // An operation repeats the same few changes.
        match self.changes.last_mut() {
            Some(last) if (last.0, last.1) == (stage, kind.number()) => last.2 += by,
            _ => self.changes.push((stage, kind.number(), by)),
        }
    }

    /// Counts a job that goes from one state to another.
    pub(super) fn moved(&mut self, stage: i64, from: State, to: State) {
        self.count(stage, Kind::Jobs(from), -1);
        self.count(stage, Kind::Jobs(to), 1);
        self.woke |= to == State::Ready;
    }

    /// A job of this group entered or left a stage: at the end of the operation, held jobs of the group may become ready.
    pub(super) fn group_moved(&mut self, group: &str, now: Timestamp) {
        if self.moved_groups.last().is_none_or(|(last, _)| last != group) {
            self.moved_groups.push((group.to_owned(), now));
        }
    }

    /// Makes held jobs ready whose whole group has left the stages before. Runs at the end of an operation, when it is clear
    /// which jobs of the group there are.
    pub(super) fn release_groups(&mut self) -> Result<(), Failure> {
        let mut groups = std::mem::take(&mut self.moved_groups);
        groups.sort();
        groups.dedup();
        let waiting: Vec<(i64, Vec<i64>)> = self
            .stages()?
            .iter()
            .filter(|stage| !stage.after.is_empty())
            .map(|stage| (stage.id, stage.after.clone()))
            .collect();
        for (group, now) in &groups {
            for (stage, after) in &waiting {
                if !self.is_in_any(group, after)? {
                    self.release_group(group, *stage, *now)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a job of the group is in one of the stages and has not left it.
    pub(super) fn is_in_any(&self, group: &str, stages: &[i64]) -> rusqlite::Result<bool> {
        let mut there = self.connection.prepare_cached(
            "SELECT 1 FROM jobs WHERE \"group\" = ?1 AND stage = ?2 AND (state >= 5) = 0 LIMIT 1",
        )?;
        for stage in stages {
            if there.exists(params![group, stage])? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets the held jobs of a group in a stage go: [`GroupLeft`](crate::job::transition::JobCall::GroupLeft).
    pub(super) fn release_group(&mut self, group: &str, stage: i64, now: Timestamp) -> rusqlite::Result<()> {
        let held: Vec<(i64, i64)> = self
            .connection
            .prepare_cached(
                "SELECT id, due_at FROM jobs WHERE \"group\" = ?1 AND stage = ?2 AND (state >= 5) = 0 AND state = 2",
            )?
            .query_map(params![group, stage], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let mut release = self.connection.prepare_cached("UPDATE jobs SET state = ?2 WHERE id = ?1")?;
        for (id, due_at) in held {
            let state = waiting(time(due_at), now);
            release.execute(params![id, state.number()])?;
            self.moved(stage, State::Held, state);
        }
        Ok(())
    }

    /// Whether a stage has more ready jobs than at this mark.
    pub(super) fn more_are_ready_since(&self, mark: usize) -> bool {
        let of_ready = Kind::Jobs(State::Ready).number();
        let mut more: BTreeMap<i64, i64> = BTreeMap::new();
        for (stage, kind, by) in &self.changes[mark..] {
            if *kind == of_ready {
                *more.entry(*stage).or_default() += by;
            }
        }
        more.values().any(|more| *more > 0)
    }

    /// Where the counters are, for [`Session::back_to`] and what came since.
    pub(super) fn mark(&mut self) -> usize {
        // A change must not be merged into one from before the mark.
        self.changes.push((0, -1, 0));
        self.changes.len()
    }

    /// Forgets what an operation did that was undone.
    pub(super) fn back_to(&mut self, mark: usize) {
        self.changes.truncate(mark);
        self.moved_groups.clear();
        self.stages = None;
    }

    /// Forgets what a transaction did that was undone.
    pub(super) fn forget(&mut self) {
        self.back_to(0);
        self.woke = false;
        self.clock.iter_mut().for_each(KeptClock::forget);
    }

    /// Writes from where the engine's time goes on, if that is due, before the commit.
    pub(super) fn write_clock(&mut self) -> rusqlite::Result<()> {
        let connection = self.connection;
        self.clock.as_mut().map_or(Ok(()), |clock| clock.write(connection))
    }

    /// Writes the counters that changed, before the commit.
    pub(super) fn write_counters(&mut self) -> rusqlite::Result<()> {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort_unstable();
        let mut write = self.connection.prepare_cached(
            "INSERT INTO counters (stage, kind, n) VALUES (?1, ?2, ?3)
             ON CONFLICT (stage, kind) DO UPDATE SET n = n + excluded.n",
        )?;
        for same in changes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let by: i64 = same.iter().map(|change| change.2).sum();
            if by != 0 {
                write.execute(params![same[0].0, same[0].1, by])?;
            }
        }
        Ok(())
    }
}

fn read_stages(connection: &Connection) -> Result<Vec<Stage>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT id, name, paused, after FROM stages ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut stages = Vec::new();
    while let Some(row) = rows.next()? {
        let after: String = row.get(3)?;
        stages.push(Stage {
            id: row.get(0)?,
            name: super::rows::name(&row.get::<_, String>(1)?)?,
            paused: row.get(2)?,
            after: serde_json::from_str(&after).unwrap_or_default(),
        });
    }
    Ok(stages)
}

/// The id of a stage, for connections without a session.
pub(super) fn find_stage(connection: &Connection, name: &Name) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM stages WHERE name = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()
}
