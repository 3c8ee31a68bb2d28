//! The client role over HTTP: one logical peer over many exchanges.
