//! The stream of `/v1/live` for a viewer in this process.

use bytes::Bytes;

use crate::Dashboard;
use crate::feed::Viewer;

/// The events of `/v1/live`, as a viewer over HTTP reads them.
pub struct Events(Viewer);

impl Dashboard {
    /// A viewer in this process, until it is dropped; `None` if there are too many. Events come while
    /// [`Dashboard::run`] is polled.
    pub fn events(&self) -> Option<Events> {
        self.0.feed.watch().map(Events)
    }
}

impl Events {
    /// The next event.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.next().await
    }
}
