//! Opens the engine at a URL: to run its pipeline, or for a command beside the process that does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollway_memory::WallClock;

use super::sqlite::SqliteReader;
use super::sqlite::file::foreign_lock;
use crate::{
    Engine, EngineAnswer, EngineError, EngineFault, EngineUrl, SocketEngine, SocketServer, SqliteEngine,
    SqsUrl,
};

/// How long a process that runs a pipeline waits for a command, which has the file for a moment.
const RUN_WAITS: Duration = Duration::from_secs(30);

/// How long a command waits for another one. Its user is watching.
const COMMAND_WAITS: Duration = Duration::from_secs(10);

/// When a wait is worth a line.
const SAY_AFTER: Duration = Duration::from_secs(2);

/// How often to look whether the other one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// After how long a lock is looked at more closely: a command that has just taken it has written its pid by then.
const FOREIGN_AFTER: Duration = Duration::from_secs(1);

/// An engine whose pipeline this process runs.
pub struct OpenedEngine {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Whether no other process can work on these jobs.
    pub sole_owner: bool,
    /// Answers commands while it is kept.
    pub commands: Option<SocketServer>,
}

/// Opens the engine at a URL of SQS: `tollway_sqs::open`.
pub type OpenSqs = fn(&SqsUrl) -> EngineAnswer<Arc<dyn Engine>>;

/// Opens the engines that this program knows: SQLite, Postgres if it was built with it, and SQS if it brings that crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineOpener {
    sqs: Option<OpenSqs>,
}

impl EngineOpener {
    /// The same with SQS.
    #[must_use]
    pub fn with_sqs(self, open: OpenSqs) -> Self {
        Self { sqs: Some(open) }
    }

    /// Opens the engine to run its pipeline. A SQLite file gets a socket for commands; if another process runs its pipeline,
    /// that is an error that names it.
    pub async fn open_to_run(self, url: &EngineUrl) -> Result<OpenedEngine, EngineError> {
        let EngineUrl::Sqlite(file) = url else {
            return Ok(OpenedEngine {
                engine: self.open_shared(url).await?,
                sole_owner: false,
                commands: None,
            });
        };
        let engine: Arc<dyn Engine> = Arc::new(own(file, RUN_WAITS).await?);
        let commands = Some(SocketServer::start(file, engine.clone())?);
        Ok(OpenedEngine { engine, sole_owner: true, commands })
    }

    /// Opens the engine for a command: a SQLite file through the process that runs its pipeline, if there is one. Without
    /// `create`, a file that does not exist is an error.
    pub async fn open_for_command(
        self,
        url: &EngineUrl,
        create: bool,
    ) -> Result<Arc<dyn Engine>, EngineError> {
        self.open_beside(url, create, |_| {}).await
    }

    /// The same. If the owner of a SQLite file does not answer, its jobs are read from the file, and calls that would change
    /// them are refused: `unanswered` is told why.
    pub async fn open_beside(
        self,
        url: &EngineUrl,
        create: bool,
        unanswered: impl FnOnce(&EngineError),
    ) -> Result<Arc<dyn Engine>, EngineError> {
        let EngineUrl::Sqlite(file) = url else { return self.open_shared(url).await };
        if !create {
            check_exists(file)?;
        }
        match through_owner(file).await {
            Err(error) if matches!(error.fault, EngineFault::Busy | EngineFault::Network) => {
                let reader = SqliteReader::open(file, error.clone())?;
                unanswered(&error);
                Ok(Arc::new(reader))
            }
            opened => opened,
        }
    }

    /// Opens the engine to look at jobs for long, beside processes that run the pipeline or will: it never owns a SQLite file.
    /// Calls that would change something may be refused.
    pub async fn open_to_look(self, url: &EngineUrl) -> Result<Arc<dyn Engine>, EngineError> {
        let EngineUrl::Sqlite(file) = url else { return self.open_shared(url).await };
        check_exists(file)?;
        if let Ok(Some(engine)) = SocketEngine::connect(file).await {
            return Ok(Arc::new(engine));
        }
        let because = EngineError::caller("the jobs were opened to look at them, and not to change them");
        Ok(Arc::new(SqliteReader::open(file, because)?))
    }

    /// Opens an engine that processes on many machines share.
    async fn open_shared(self, url: &EngineUrl) -> Result<Arc<dyn Engine>, EngineError> {
        match (url, self.sqs) {
            #[cfg(feature = "postgres")]
            (EngineUrl::Postgres(url), _) => {
                let url = url.connection_url().map_err(EngineError::caller)?;
                Ok(Arc::new(crate::PostgresEngine::open(&url)?))
            }
            (EngineUrl::Sqs(url), Some(open)) => open(url).await,
            (EngineUrl::Sqs(_), None) => {
                Err(EngineError::caller("this command was built without SQS: build it with --features aws"))
            }
            _ => Err(EngineError::caller(
                "this command was built without Postgres: build it with --features postgres",
            )),
        }
    }
}

impl EngineUrl {
    /// Whether a process runs the pipeline of this engine. None: it cannot tell, because any machine may.
    pub fn is_run(&self) -> Option<bool> {
        match self {
            Self::Sqlite(file) => Some(SocketEngine::is_served(file)),
            Self::Postgres(_) | Self::Sqs(_) => None,
        }
    }
}

fn check_exists(file: &Path) -> Result<(), EngineError> {
    match file.exists() {
        true => Ok(()),
        false => {
            let message = format!("there are no jobs: {} does not exist; enqueue some first", file.display());
            Err(EngineError::caller(message))
        }
    }
}

/// The process that runs the pipeline of a file, or this one, as its owner.
async fn through_owner(file: &Path) -> Result<Arc<dyn Engine>, EngineError> {
    if let Some(engine) = SocketEngine::connect(file).await? {
        return Ok(Arc::new(engine));
    }
    match own(file, COMMAND_WAITS).await {
        Ok(engine) => Ok(Arc::new(engine)),
        // A pipeline was started in the meantime.
        Err(error) if error.fault == EngineFault::Busy => match SocketEngine::connect(file).await? {
            Some(engine) => Ok(Arc::new(engine)),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Becomes the file's owner. Waits for commands, which have it for a moment, but not for a process that runs its pipeline.
async fn own(file: &Path, wait_max: Duration) -> Result<SqliteEngine, EngineError> {
    let mut waited = Duration::ZERO;
    loop {
        match SqliteEngine::open_going_by(Arc::new(WallClock), file) {
            Err(error) if error.fault == EngineFault::Busy && waited < wait_max => {
                if SocketEngine::is_served(file) {
                    return Err(error);
                }
                if waited == SAY_AFTER {
                    tracing::warn!("waiting: {}", error.message);
                }
                waited += LOOK_EVERY;
                if waited > FOREIGN_AFTER
                    && let Some(error) = foreign_lock(file)
                {
                    return Err(error);
                }
                sleep(LOOK_EVERY).await;
            }
            opened => return opened,
        }
    }
}
