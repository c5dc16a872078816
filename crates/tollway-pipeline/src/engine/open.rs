//! Opens the engine at a URL: to run its pipeline, or for a command beside the process that does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollway_core::Retry;

use crate::engine::sqlite::file::foreign_lock;
use crate::{Engine, EngineError, EngineFault, EngineUrl, SocketEngine, SocketServer, SqliteEngine};

/// How long to wait for another command that has the file for a moment.
const OTHERS_WITHIN: Duration = Duration::from_secs(30);

/// How often to look whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The looks that are left when the lock has been held for a second: a command that has just taken it has written its pid by
/// then.
const LOOKS_BEFORE_FOREIGN: u128 = (OTHERS_WITHIN.as_millis() - 1_000) / LOOK_EVERY.as_millis();

/// An engine whose pipeline this process runs.
pub struct OpenedEngine {
    /// The engine.
    pub engine: Arc<dyn Engine>,
    /// Whether no other process can work on these jobs.
    pub sole_owner: bool,
    /// Answers commands while it is kept.
    pub commands: Option<SocketServer>,
}

impl EngineUrl {
    /// Opens the engine to run its pipeline. A SQLite file gets a socket for commands; if another process runs its pipeline,
    /// that is an error that names it.
    pub async fn open_to_run(&self) -> Result<OpenedEngine, EngineError> {
        match self {
            Self::Sqlite(file) => {
                let engine: Arc<dyn Engine> = Arc::new(own(file, true).await?);
                let commands = Some(SocketServer::start(file, engine.clone())?);
                Ok(OpenedEngine { engine, sole_owner: true, commands })
            }
            Self::Postgres(_) => {
                Ok(OpenedEngine { engine: self.shared()?, sole_owner: false, commands: None })
            }
            Self::Sqs(_) => {
                Ok(OpenedEngine { engine: self.queues().await?, sole_owner: false, commands: None })
            }
        }
    }

    /// Opens the engine for a command: a SQLite file through the process that runs its pipeline, if there is one. Without
    /// `create`, a file that does not exist is an error.
    pub async fn open_for_command(&self, create: bool) -> Result<Arc<dyn Engine>, EngineError> {
        let file = match self {
            Self::Sqlite(file) => file,
            Self::Postgres(_) => return self.shared(),
            Self::Sqs(_) => return self.queues().await,
        };
        if !create && !file.exists() {
            let message = format!("there are no jobs: {} does not exist; enqueue some first", file.display());
            return Err(EngineError::caller(message));
        }
        match SocketEngine::connect(file).await? {
            Some(engine) => Ok(Arc::new(engine)),
            None => match own(file, false).await {
                Ok(engine) => Ok(Arc::new(engine)),
                // A pipeline was started in the meantime.
                Err(error) if error.fault == EngineFault::Busy => match SocketEngine::connect(file).await? {
                    Some(engine) => Ok(Arc::new(engine)),
                    None => Err(error),
                },
                Err(error) => Err(error),
            },
        }
    }

    #[cfg(feature = "postgres")]
    fn shared(&self) -> Result<Arc<dyn Engine>, EngineError> {
        match self {
            Self::Postgres(url) => {
                let url = url.connection_url().map_err(EngineError::caller)?;
                Ok(Arc::new(crate::PostgresEngine::open(&url)?))
            }
            _ => Err(EngineError::caller("this engine is not on Postgres")),
        }
    }

    #[cfg(not(feature = "postgres"))]
    fn shared(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::caller("this command was built without Postgres: build it with --features postgres"))
    }
}

#[cfg(feature = "sqs")]
impl EngineUrl {
    /// Opens queues, and looks whether they suit.
    async fn queues(&self) -> Result<Arc<dyn Engine>, EngineError> {
        let engine = crate::SqsEngine::open(self)?;
        engine.check_queues().await?;
        Ok(Arc::new(engine))
    }
}

#[cfg(not(feature = "sqs"))]
impl EngineUrl {
    async fn queues(&self) -> Result<Arc<dyn Engine>, EngineError> {
        Err(EngineError::caller("this command was built without SQS: build it with --features aws"))
    }
}

/// Becomes the file's owner. Waits for commands, which have it for a moment, but not for a process that runs its pipeline.
async fn own(file: &Path, to_run: bool) -> Result<SqliteEngine, EngineError> {
    let mut looks = OTHERS_WITHIN.as_millis() / LOOK_EVERY.as_millis();
    loop {
        match SqliteEngine::open(file) {
            Err(error) if error.fault == EngineFault::Busy && looks > 0 => {
                if SocketEngine::connect(file).await?.is_some() {
                    return Err(if to_run { error } else { busy(file) });
                }
                looks -= 1;
                if looks < LOOKS_BEFORE_FOREIGN
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

fn busy(file: &Path) -> EngineError {
    let message = format!("{} belongs to a process that has just started", file.display());
    EngineError { fault: EngineFault::Busy, retry: Retry::Safe, message }
}
