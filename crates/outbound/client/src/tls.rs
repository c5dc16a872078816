//! The cryptography of https.

/// Uses ring, unless another part of the program has chosen something already.
pub fn use_ring() {
    #[cfg(feature = "tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
}
