//! Integration tests of the dashboard: a real server on a free port, and a client over a socket.
