//! Types of the protocol's messages, and the checks of a host before it asks the user or shows something.

mod consent;
mod methods;
mod properties;
mod reading;
mod rules;
mod skills;
mod writing;
