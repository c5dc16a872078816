//! What both layers let a program choose: the requests they skip, the headers they write, and what a denial looks like.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollway::Denied;
use tollway_inbound::headers::HeaderChoice;

type Skip = dyn Fn(&Parts) -> bool + Send + Sync;
type OnDenied = dyn Fn(&Parts, &Denied, &mut Response<Bytes>) + Send + Sync;

/// The choices of a layer.
#[derive(Clone)]
pub(crate) struct LayerOptions {
    pub(crate) headers: HeaderChoice,
    /// A request that one of them holds for is not counted.
    skips: Vec<Arc<Skip>>,
    on_denied: Option<Arc<OnDenied>>,
}

impl Default for LayerOptions {
    fn default() -> Self {
        Self { headers: HeaderChoice::ALL, skips: Vec::new(), on_denied: None }
    }
}

impl LayerOptions {
    pub(crate) fn add_skip(&mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) {
        self.skips.push(Arc::new(skip));
    }

    pub(crate) fn set_on_denied(
        &mut self,
        change: impl Fn(&Parts, &Denied, &mut Response<Bytes>) + Send + Sync + 'static,
    ) {
        self.on_denied = Some(Arc::new(change));
    }

    /// Whether a request passes without being counted.
    pub(crate) fn skip(&self, request: &Parts) -> bool {
        self.skips.iter().any(|skip| skip(request))
    }

    /// Lets the program change the response to a denied request.
    pub(crate) fn change_denial(&self, request: &Parts, denied: &Denied, response: &mut Response<Bytes>) {
        if let Some(change) = &self.on_denied {
            change(request, denied, response);
        }
    }
}
