//! Tests across the crates. What is here beside them makes the README's code part of the tests.

/// The README, whose examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
