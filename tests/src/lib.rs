//! Tests across the crates, and doctests of the README's code.

/// The README, whose examples compile as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

#[cfg(test)]
mod tests {
    #[test]
    fn readme_shows_the_tested_loop() {
        let program = include_str!("../../mcp-proto/examples/blocking.rs");
        let start = program.find("use mcp_proto").expect("the program imports the crate");
        assert!(include_str!("../../README.md").contains(&program[start..]));
    }
}
