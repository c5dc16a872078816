//! The files: a folder, or a bucket of S3.

use std::env;
use std::path::Path as FilePath;
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, parse_url_opts};
use url::Url;

use crate::BoxError;

/// The bucket in the messages if the files are in a folder: a folder in it.
pub(crate) const LOCAL_BUCKET: &str = "your-bucket-name";

/// Where files are read and written.
#[derive(Clone)]
pub(crate) struct Files {
    store: Arc<dyn ObjectStore>,
    /// Above all keys.
    root: Path,
    /// The only bucket that these files have; none in a folder, where a bucket is a folder.
    bucket: Option<String>,
}

/// Why a file could not be read or written.
#[derive(Debug)]
pub(crate) enum FileError {
    /// It will not be there later either: the message is wrong.
    Missing(String),
    /// It may work later.
    Failed(String),
}

impl Files {
    /// Opens `s3://bucket/prefix`, whose settings are in the environment (`AWS_REGION` and so on), or a folder, which is
    /// made.
    pub(crate) fn open(place: &str) -> Result<Self, BoxError> {
        let url = match place.contains("://") {
            true => Url::parse(place)?,
            false => folder_url(FilePath::new(place))?,
        };
        if url.scheme() == "s3" && !cfg!(feature = "s3") {
            return Err("files in S3 need a feature: cargo run -p adobe-pdf --features s3".into());
        }
        let (store, root) = parse_url_opts(&url, env::vars())?;
        let bucket = (url.scheme() != "file").then(|| url.host_str().unwrap_or_default().to_owned());
        Ok(Self { store: store.into(), root, bucket })
    }

    /// The bucket that messages about new files name.
    pub(crate) fn bucket(&self) -> &str {
        self.bucket.as_deref().unwrap_or(LOCAL_BUCKET)
    }

    pub(crate) async fn read(&self, bucket: &str, key: &str) -> Result<Vec<u8>, FileError> {
        let path = self.path(bucket, key)?;
        let read = async { self.store.get(&path).await?.bytes().await };
        read.await.map(|bytes| bytes.to_vec()).map_err(of)
    }

    /// Writes a whole file: a reader sees all of it or the one before.
    pub(crate) async fn write(&self, bucket: &str, key: &str, bytes: Vec<u8>) -> Result<(), FileError> {
        let path = self.path(bucket, key)?;
        self.store.put(&path, bytes.into()).await.map(drop).map_err(of)
    }

    /// The names of the files directly in this folder, sorted.
    pub(crate) async fn names(&self, bucket: &str, folder: &str) -> Result<Vec<String>, FileError> {
        let path = self.path(bucket, folder.trim_end_matches('/'))?;
        let listed = self.store.list_with_delimiter(Some(&path)).await.map_err(of)?;
        let name = |file: object_store::ObjectMeta| Some(file.location.filename()?.to_owned());
        let mut names: Vec<String> = listed.objects.into_iter().filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    /// How many files there are.
    pub(crate) async fn count(&self) -> Result<usize, FileError> {
        let files = self.store.list(Some(&self.root)).try_fold(0, |count, _| async move { Ok(count + 1) });
        files.await.map_err(of)
    }

    /// A key that leads out of its bucket is refused.
    fn path(&self, bucket: &str, key: &str) -> Result<Path, FileError> {
        let wrong = |error: object_store::path::Error| FileError::Missing(error.to_string());
        let key = Path::parse(key).map_err(wrong)?;
        let root = match &self.bucket {
            None => self.root.parts().chain(Path::parse(bucket).map_err(wrong)?.parts()).collect(),
            Some(known) if known == bucket => self.root.clone(),
            Some(known) => {
                let message = format!("the message names bucket {bucket}, and the files are in {known}");
                return Err(FileError::Missing(message));
            }
        };
        Ok(root.parts().chain(key.parts()).collect())
    }
}

fn folder_url(folder: &FilePath) -> Result<Url, BoxError> {
    std::fs::create_dir_all(folder)?;
    let absolute = std::path::absolute(folder)?;
    Url::from_directory_path(&absolute).map_err(|()| format!("{} is no folder", absolute.display()).into())
}

fn of(error: object_store::Error) -> FileError {
    match error {
        object_store::Error::NotFound { path, .. } => FileError::Missing(format!("there is no file {path}")),
        error => FileError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_stay_in_their_bucket() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::open(folder.path().join("files").to_str().unwrap()).unwrap();
        std::fs::write(folder.path().join("secret"), "s").unwrap();
        for key in ["../secret", "../../secret", "a/../../../secret", "a//b"] {
            assert!(matches!(files.read("b", key).await, Err(FileError::Missing(_))), "{key}");
        }
        assert!(matches!(files.read("..", "secret").await, Err(FileError::Missing(_))));
        files.write("b", "uploads/job-1/chunks/2.pdf", b"2".to_vec()).await.unwrap();
        files.write("b", "uploads/job-1/chunks/1.pdf", b"1".to_vec()).await.unwrap();
        assert_eq!(files.names("b", "uploads/job-1/chunks/").await.unwrap(), ["1.pdf", "2.pdf"]);
        assert_eq!(files.read("b", "uploads/job-1/chunks/2.pdf").await.unwrap(), b"2");
        assert_eq!(files.count().await.unwrap(), 2);
    }
}
