//! Small models of clients, searched exhaustively: two or three messages and one fault in every order.
//!
//! Each model is the real machine, a driver, an application and a peer that keeps to the specification, but for one
//! fault. After each step the contracts hold; then the peer recovers, or is silent for ever, and everything ends.

mod era_http;
mod era_stream;
mod http;
mod input;
mod resumption;
mod session;
mod tasks;
mod world;
