//! Clients: hyper connections that carry the exchanges of an HTTP client machine.
