//! The export: users, databases, the pages of each database, the blocks of each page, as JSON files.
//!
//! Nothing here waits or retries. Calls are started as soon as they are known; the client sends them when the limit allows.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollway::Span;
use tollway_client::{ApiClient, ApiRequest, Priority};

use crate::{BoxError, say};

/// What was exported.
#[derive(Debug, Default)]
pub(crate) struct Export {
    pub(crate) users: usize,
    pub(crate) databases: usize,
    pub(crate) pages: usize,
    pub(crate) blocks: usize,
    pub(crate) files: usize,
    pub(crate) took: Span,
    folder: PathBuf,
}

/// One page of a list, as Notion sends it.
#[derive(Deserialize)]
struct List {
    results: Vec<Value>,
    has_more: bool,
    next_cursor: Option<String>,
}

impl Export {
    /// Reads the workspace and writes it into the folder.
    pub(crate) async fn run(notion: &ApiClient, folder: &Path) -> Result<Self, BoxError> {
        let clock = notion.limiter().limiter().clock().clone();
        let started = clock.now();
        let mut export = Self { folder: folder.to_owned(), ..Self::default() };
        let users = all(|cursor| notion.get("/users").query(&start(cursor))).await?;
        export.users = users.len();
        export.write("users.json", &users)?;

        let filter = json!({ "property": "object", "value": "database" });
        let databases =
            all(|cursor| notion.post("/search").json(&json!({ "filter": filter, "start_cursor": cursor })));
        let databases = databases.await?;
        export.databases = databases.len();
        export.write("databases.json", &databases)?;
        for database in &databases {
            export.database(notion, id_of(database)?).await?;
        }
        export.took = clock.now().since(started);
        Ok(export)
    }

    async fn database(&mut self, notion: &ApiClient, id: &str) -> Result<(), BoxError> {
        let path = format!("/databases/{id}/query");
        // The list comes first: what it says is needed to go on.
        let pages = all(|cursor| {
            notion.post(&path).json(&json!({ "start_cursor": cursor })).priority(Priority::High)
        });
        let pages = pages.await?;
        self.write(&format!("{id}.json"), &pages)?;
        let mut calls = JoinSet::new();
        for page in &pages {
            let (notion, page) = (notion.clone(), id_of(page)?.to_owned());
            calls.spawn(async move {
                let path = format!("/blocks/{page}/children");
                let blocks = all(|cursor| notion.get(&path).query(&start(cursor))).await?;
                Ok::<_, BoxError>((page, blocks))
            });
        }
        let mut done = 0;
        while let Some(finished) = calls.join_next().await {
            let (page, blocks) = finished??;
            self.blocks += blocks.len();
            self.write(&format!("{page}.json"), &blocks)?;
            done += 1;
            progress(notion, id, done, pages.len()).await?;
        }
        self.pages += pages.len();
        say(format_args!("  {id}: {} pages", pages.len()))?;
        Ok(())
    }

    fn write(&mut self, name: &str, content: &[Value]) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        std::fs::write(self.folder.join(name), serde_json::to_vec_pretty(content)?)?;
        self.files += 1;
        Ok(())
    }
}

/// All items of a list, page by page.
async fn all(request: impl Fn(Option<&str>) -> ApiRequest) -> Result<Vec<Value>, BoxError> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let answer = request(cursor.as_deref()).send().await?.error_for_status()?;
        let list: List = answer.json().await?;
        items.extend(list.results);
        match list.next_cursor {
            Some(next) if list.has_more => cursor = Some(next),
            _ => return Ok(items),
        }
    }
}

fn start(cursor: Option<&str>) -> Vec<(&'static str, &str)> {
    cursor.map(|cursor| ("start_cursor", cursor)).into_iter().collect()
}

/// Ids become names of files: only letters, digits and hyphens.
fn id_of(object: &Value) -> Result<&str, BoxError> {
    let id = object["id"].as_str().unwrap_or_default();
    match !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        true => Ok(id),
        false => Err(format!("an object has no usable id: {object}").into()),
    }
}

/// A line that is redrawn, on a terminal.
async fn progress(notion: &ApiClient, database: &str, done: usize, pages: usize) -> Result<(), BoxError> {
    if !io::stderr().is_terminal() {
        return Ok(());
    }
    let snapshot = notion.limiter().snapshot().await?;
    let rate = snapshot.current_rate.unwrap_or_default();
    let end = if done == pages { "\r\x1b[K" } else { "" };
    write!(io::stderr(), "\r\x1b[K  {database}: {done} of {pages} pages, {rate:.1} calls a second{end}")?;
    Ok(())
}
