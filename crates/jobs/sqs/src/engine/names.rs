//! Two processes that work under one name: each takes the claims of the other for those of an earlier process that died.
//!
//! The ledger has one item for a name, which its processes write in turn. One that finds the item of another process after it
//! has written its own is not alone. The first item it finds may be that of a process that died.

use tollway_pipeline::EngineError;

use super::table::{Guard, Item, PART, SORT, Write, read_text, text};
use super::{Inner, lock};

const WORKERS: &str = "workers";
const PROCESS: &str = "process";

impl Inner {
    pub(super) async fn claim_name(
        &self,
        worker: &str,
        process: &str,
    ) -> Result<Option<String>, EngineError> {
        let table = self.table().await?;
        // A place is not empty.
        let key = (WORKERS.to_owned(), format!("={worker}"));
        let found = table.get(&key).await?;
        let item = Item::from([
            (PART.to_owned(), text(&key.0)),
            (SORT.to_owned(), text(&key.1)),
            (PROCESS.to_owned(), text(process)),
        ]);
        table.write(vec![Write::Put(item, Guard::Any)]).await?;
        let is_first = lock(&self.names).insert(worker.to_owned());
        let found = found.as_ref().and_then(|item| read_text(item, PROCESS));
        Ok(found.filter(|found| !is_first && *found != process).map(str::to_owned))
    }
}
