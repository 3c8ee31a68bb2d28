//! The vocabulary of the protocol, and what is to be known before a person is asked or shown something.

mod consent;
mod methods;
mod properties;
mod reading;
mod rules;
mod writing;
