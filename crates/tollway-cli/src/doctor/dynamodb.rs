//! Whether old items of a table in DynamoDB vanish.

use tollway::StoreUrl;
use tollway_aws::provision::{TableFound, TableWanted, Tables};
use tollway_dynamodb::minute::Layout;

use super::finding::{Finding, Findings};

/// The key of a table of lines.
const KEY_OF_LINES: (&str, &str) = ("key", "S");

/// Looks at the table, if the store is one. What the role may not look at is left out.
pub(super) async fn look_at(store: &StoreUrl, findings: &mut Findings) {
    let Some(options) = store.dynamodb() else { return };
    let key = options.layout().map_or(&[KEY_OF_LINES][..], Layout::key);
    let key = key.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    let wanted = TableWanted { name: options.table().to_owned(), key };
    let found = Tables::new(options.connect()).await.look(&wanted).await;
    if let Ok(TableFound::WithoutTtl { .. }) = found {
        findings.add(Finding::problem(
            "items-never-vanish",
            format!("the table {} has no TTL: its old items never vanish", wanted.name),
            "limits hold all the same, but every subject that ever came stays in the table and is paid for",
            "tollway provision aws --apply turns it on",
        ));
    }
}
