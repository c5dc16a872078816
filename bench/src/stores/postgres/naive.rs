//! The usual implementation: `BEGIN`, `SELECT .. FOR UPDATE`, compare, `UPDATE`, `COMMIT` per take, with one row per limit
//! and prepared statements. It ignores the end of windows.

use std::sync::Arc;

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Statement};

use crate::stores::callers::{Caller, Entrant, Stage};
use crate::stores::periods::PLENTY;

/// Half of each page stays free, for updates in the same page.
const TABLE: &str = "CREATE TABLE naive
    (subject text, period text, used bigint, PRIMARY KEY (subject, period)) WITH (fillfactor = 50)";
const ROW: &str = "INSERT INTO naive VALUES ($1, $2, 0)";
const SELECT: &str = "SELECT used FROM naive WHERE subject = $1 ORDER BY period FOR UPDATE";
const UPDATE: &str = "UPDATE naive SET used = used + 1 WHERE subject = $1";

/// Connections shared by all callers.
pub(super) struct Naive<const CONNECTIONS: usize>(Vec<Arc<Mutex<Session>>>);

/// A connection with prepared statements.
pub(super) struct Session {
    client: Client,
    select: Statement,
    update: Statement,
}

impl<const CONNECTIONS: usize> Entrant for Naive<CONNECTIONS> {
    type Caller = Arc<Mutex<Session>>;

    async fn start(stage: &Stage) -> Result<Self> {
        let client = connect(&stage.url).await?;
        client.batch_execute(TABLE).await?;
        for subject in &*stage.keys.keys {
            for period in stage.periods {
                client.execute(ROW, &[subject, &period.name]).await?;
            }
        }
        let sessions = try_join_all((0..CONNECTIONS).map(|_| Session::open(&stage.url))).await?;
        Ok(Self(sessions.into_iter().map(|session| Arc::new(Mutex::new(session))).collect()))
    }

    fn caller(&self, number: usize) -> Arc<Mutex<Session>> {
        Arc::clone(&self.0[number % CONNECTIONS])
    }

    async fn check(&self, subject: &str, takes: u64) -> Result<()> {
        let session = self.0[0].lock().await;
        let row =
            session.client.query_one("SELECT min(used) FROM naive WHERE subject = $1", &[&subject]).await?;
        let used: i64 = row.try_get(0)?;
        ensure!(used.unsigned_abs() == takes, "{takes} takes were granted and {used} counted");
        Ok(())
    }
}

impl Session {
    async fn open(url: &str) -> Result<Self> {
        let client = connect(url).await?;
        let (select, update) = (client.prepare(SELECT).await?, client.prepare(UPDATE).await?);
        Ok(Self { client, select, update })
    }

    async fn take(&self, subject: &str) -> Result<bool> {
        let client = &self.client;
        client.batch_execute("BEGIN").await?;
        let mut granted = true;
        for row in client.query(&self.select, &[&subject]).await? {
            granted &= row.try_get::<_, i64>(0)?.unsigned_abs() < PLENTY;
        }
        if granted {
            client.execute(&self.update, &[&subject]).await?;
        }
        client.batch_execute(if granted { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(granted)
    }
}

impl Caller for Arc<Mutex<Session>> {
    async fn take(&mut self, subject: &str) -> Result<bool> {
        self.lock().await.take(subject).await
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
