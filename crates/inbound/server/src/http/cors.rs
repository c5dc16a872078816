//! Responses that the web pages of `allowed_origins` may read (CORS).

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
    HeaderValue, VARY,
};
use hyper::{Method, Request, StatusCode};

use super::body::{Response, no_content};

/// The methods of all routes.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, DELETE");

/// The headers that a page may set: a token, and the media type of a body.
const HEADERS: HeaderValue = HeaderValue::from_static("authorization, content-type, x-tollway-token");

/// Answers a browser that asks, before it sends the page's request, whether the page may.
pub(super) fn preflight<B>(request: &Request<B>) -> Option<Response> {
    let asks =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    asks.then(|| {
        let mut response = no_content(StatusCode::NO_CONTENT);
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        response
    })
}

/// The same for a handler, whose methods and headers are not known here: the page may use those that it asks for.
pub(super) fn preflight_of_handler<B>(request: &Request<B>) -> Option<Response> {
    let mut response = preflight(request)?;
    for (asked, allowed) in [
        (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
        (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
    ] {
        if let Some(value) = request.headers().get(asked) {
            response.headers_mut().insert(allowed, value.clone());
        }
    }
    Some(response)
}

/// Lets a page read all headers of a handler's response.
pub(super) fn expose_headers<B>(response: &mut hyper::Response<B>) {
    response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
}

/// Lets the page of this origin read the response.
pub(super) fn let_read<B>(response: &mut hyper::Response<B>, origin: HeaderValue) {
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
}
