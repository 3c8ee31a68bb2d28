//! The server role over HTTP: an exchange at a time for the modern era, sessions for the legacy one.
