//! Tests across the crates, and doctests of the README's code.

/// The README, whose examples compile as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
