//! Servers: hyper connections whose requests are exchanges of an HTTP server.
