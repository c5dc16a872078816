//! The dashboard of a process: put together, run, and handed to the server.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use tollway::incident::IncidentFile;
use tollway::{Limiter, StoreUrl, Timestamp};
use tollway_server::{ChangeLog, MakeAdminHandler};

use crate::alarms::AlarmBook;
use crate::feed::{Feed, ROWS_MAX};
use crate::handler::Handler;
use crate::history::{History, HistoryFile};
#[cfg(feature = "pipeline")]
use crate::pipelines::{PipelineSource, Pipelines};
use crate::rows::{LIMITS_MAX, Moment, Table};
use crate::sentence::sentence;
use crate::settings::SettingsSeen;
use crate::snapshot::{Incidents, Process, Snapshot, Totals};

/// How often it looks while someone watches.
const WATCHED: Duration = Duration::from_secs(1);

/// How often it looks otherwise: a step of the history.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Of a config with at most so many policies, all are shown: one read a second has room for them.
const INCLUDED_MAX: usize = 100;

/// How long the store may take to answer within a second.
const READ_WITHIN: Duration = Duration::from_millis(800);

/// How often the history is written to its file: losing a few minutes of it does no harm.
const SAVED_EVERY: Duration = Duration::from_secs(300);

/// Puts a dashboard together.
pub struct DashboardBuilder {
    limiter: Limiter,
    process: Process,
    changes: Arc<ChangeLog>,
    included_max: usize,
    history: Option<HistoryFile>,
    writes_history: bool,
    incidents: Option<IncidentFile>,
    #[cfg(feature = "pipeline")]
    pipelines: Vec<PipelineSource>,
}

impl DashboardBuilder {
    /// The store. Of a state file, the history is kept beside it.
    #[must_use]
    pub fn store(mut self, url: &StoreUrl) -> Self {
        self.process.store = url.to_string();
        self.incidents = self.limiter.incidents_config().file(Some(url)).map(IncidentFile::at);
        self.history = match url {
            StoreUrl::File(path) => Some(HistoryFile::beside(path)),
            _ => None,
        };
        self
    }

    /// Whether there is a token that may change something.
    #[must_use]
    pub fn can_write(mut self, can_write: bool) -> Self {
        self.process.can_write = can_write;
        self
    }

    /// The changes through the server that the dashboard belongs to.
    #[must_use]
    pub fn changes(mut self, changes: Arc<ChangeLog>) -> Self {
        self.changes = changes;
        self
    }

    /// For a process that takes nothing itself: shows the policies of the config, not those that it uses, and leaves the file
    /// of the history to those that do.
    #[must_use]
    pub fn of_store(mut self) -> Self {
        self.included_max = LIMITS_MAX;
        self.writes_history = false;
        self
    }

    /// Shows a pipeline, too.
    #[cfg(feature = "pipeline")]
    #[must_use]
    pub fn pipeline(mut self, source: PipelineSource) -> Self {
        self.pipelines.push(source);
        self
    }

    /// The dashboard. It reads the file of its history.
    pub fn build(self) -> Dashboard {
        let now = self.limiter.clock().now();
        let history =
            self.history.as_ref().and_then(|file| file.load(now)).unwrap_or_else(|| History::new(now));
        let seen = Seen {
            table: Table::new(now, self.included_max),
            history,
            alarms: AlarmBook::default(),
            settings: SettingsSeen::default(),
            read_from: 0,
            subjects_since: None,
        };
        let shared = Shared {
            limiter: self.limiter,
            process: self.process,
            changes: self.changes,
            file: self.history.filter(|_| self.writes_history),
            incidents: self.incidents,
            seen: Mutex::new(seen),
            feed: Arc::new(Feed::new()),
            #[cfg(feature = "pipeline")]
            pipelines: Pipelines::new(self.pipelines),
        };
        Dashboard(Arc::new(shared))
    }
}

/// What a process shows of itself. Cheap to clone; clones are the same dashboard.
///
/// The limiter must count ([`tollway::LimiterBuilder::metrics`]).
#[derive(Clone)]
pub struct Dashboard(pub(crate) Arc<Shared>);

/// What the task of the dashboard and the handlers of requests share.
pub(crate) struct Shared {
    pub(crate) limiter: Limiter,
    pub(crate) process: Process,
    pub(crate) changes: Arc<ChangeLog>,
    /// Where the history is kept, if this process writes it.
    file: Option<HistoryFile>,
    incidents: Option<IncidentFile>,
    seen: Mutex<Seen>,
    pub(crate) feed: Arc<Feed>,
    #[cfg(feature = "pipeline")]
    pub(crate) pipelines: Pipelines,
}

/// What was seen so far.
pub(crate) struct Seen {
    pub(crate) table: Table,
    pub(crate) history: History,
    alarms: AlarmBook,
    settings: SettingsSeen,
    /// Where reading goes on, of a store in this process.
    read_from: usize,
    /// Since when subjects of takes are noted, if they are.
    pub(crate) subjects_since: Option<Timestamp>,
}

impl Dashboard {
    /// Of a limiter, in a process of this command.
    pub fn builder(limiter: &Limiter, command: &str) -> DashboardBuilder {
        let process = Process {
            command: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            ..Process::default()
        };
        DashboardBuilder {
            limiter: limiter.clone(),
            process,
            changes: Arc::default(),
            included_max: INCLUDED_MAX,
            history: None,
            writes_history: true,
            incidents: None,
            #[cfg(feature = "pipeline")]
            pipelines: Vec::new(),
        }
    }

    /// Answers requests, for [`tollway_server::Server::with_admin_handler`].
    pub fn make_handler(&self) -> MakeAdminHandler {
        let shared = Arc::clone(&self.0);
        Arc::new(move || Rc::new(Handler::new(Arc::clone(&shared))))
    }

    /// Shows these pipelines from now on, after their config has changed.
    #[cfg(feature = "pipeline")]
    pub fn replace_pipelines(&self, sources: Vec<PipelineSource>) {
        self.0.pipelines.replace(sources);
    }

    /// Looks at the limiter for as long as it is polled. Must be called on a tokio runtime with timers.
    pub async fn run(&self) {
        let shared = &self.0;
        let mut saved_at = shared.now();
        loop {
            let watched = shared.feed.viewers() > 0;
            shared.look(watched).await;
            if !watched && shared.feed.viewers() == 0 {
                shared.limiter.unwatch_subjects();
                shared.seen().subjects_since = None;
                shared.feed.clear();
            }
            if Duration::from(shared.now().since(saved_at)) >= SAVED_EVERY {
                saved_at = shared.now();
                shared.save().await;
            }
            let pause = if watched { WATCHED } else { UNWATCHED };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shared.feed.changed(), if !watched => {}
            }
        }
    }

    /// Keeps the history, if it has a file.
    pub async fn close(&self) {
        self.0.save().await;
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.limiter.clock().now()
    }

    /// The incidents of all processes of this machine.
    pub(crate) fn incident_file(&self) -> Option<IncidentFile> {
        self.incidents.clone()
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads counters and, if someone watches, accounts and pipelines; then sends a snapshot.
    async fn look(&self, watched: bool) {
        let now = self.now();
        if watched {
            self.limiter.watch_subjects(now);
            self.seen().subjects_since.get_or_insert(now);
        }
        let reads = {
            let mut seen = self.seen();
            let Seen { table, history, read_from, .. } = &mut *seen;
            table.read(&self.limiter, now, |step, of| history.note(step, &of, now));
            if watched { table.reads(now) } else { table.reads_in_process(&self.limiter, read_from) }
        };
        let accounts: Vec<_> = reads.iter().map(|read| read.account.clone()).collect();
        let usages = timeout(READ_WITHIN, self.limiter.usage_of_accounts(&accounts));
        #[cfg(feature = "pipeline")]
        let (usages, ()) = tokio::join!(usages, self.pipelines.look(watched, now));
        #[cfg(not(feature = "pipeline"))]
        let usages = usages.await;
        let now = self.now();
        // A store that does not answer is shown as such.
        if let Ok(Ok(usages)) = usages {
            self.seen().table.take_in(&reads, usages, now);
        }
        self.note_alarms(now);
        if watched {
            self.seen().settings.note(&self.limiter, &self.changes, now);
            let snapshot = self.snapshot(now);
            self.feed.send(snapshot);
        }
    }

    fn note_alarms(&self, now: Timestamp) {
        let raised = self.limiter.store_alarms();
        let raised = raised.into_iter().map(|alarm| (alarm.name().to_owned(), alarm.to_string()));
        #[cfg(feature = "pipeline")]
        let raised = raised.chain(self.pipelines.alarms());
        let raised: Vec<_> = raised.collect();
        self.seen().alarms.note(&raised, now.as_millis());
    }

    fn snapshot(&self, now: Timestamp) -> Snapshot {
        let store = self.limiter.store_status();
        let waiting = self.limiter.all_waiting();
        let moment = Moment { now, degraded: store.degraded_since.is_some(), waiting: &waiting };
        let seen = self.seen();
        let (rows, all_rows) = seen.table.rows(&moment, ROWS_MAX);
        let together = self.limiter.policies_counted_together();
        let (count, last) = self.limiter.incidents_count_and_last();
        let mut snapshot = Snapshot {
            at: now.as_millis(),
            since: seen.history.since().as_millis(),
            process: Process {
                store_away_since: store.degraded_since.map(|since| since.as_millis()),
                store_nodes_away: store.nodes_away.into_iter().map(|node| node.name).collect(),
                ..self.process.clone()
            },
            totals: Totals {
                granted_per_second: seen.table.granted.per_second(),
                denied_per_second: seen.table.denied.per_second(),
                waiting: waiting.values().map(|waiting| waiting.callers).sum(),
                policies: number(self.limiter.policies_len()),
                policies_used: number(seen.table.policies_used()) + together,
                policies_without_rows: together,
                rows: number(all_rows),
                viewers: number(self.feed.viewers()),
            },
            rows,
            apis: crate::details::apis::rows(&self.limiter, &seen.table, now),
            alarms: seen.alarms.newest_first(),
            incidents: Incidents { count: number(count), last: last.map(|last| last.as_millis()) },
            ..Snapshot::default()
        };
        drop(seen);
        #[cfg(feature = "pipeline")]
        {
            snapshot.pipelines = self.pipelines.rows();
        }
        snapshot.sentence = sentence(&snapshot);
        snapshot
    }

    async fn save(&self) {
        let Some(file) = self.file.clone() else { return };
        let bytes = self.seen().history.bytes();
        let saved = tokio::task::spawn_blocking(move || file.save(&bytes)).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, "the history of the dashboard cannot be written");
        }
    }
}

fn number(count: usize) -> u64 {
    count.try_into().unwrap_or(u64::MAX)
}
