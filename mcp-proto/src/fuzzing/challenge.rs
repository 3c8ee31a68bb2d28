//! Fuzzing of authentication challenges.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::auth::{Challenge, Requirement, Scopes, URL_BYTES};

/// Reads the input as a `WWW-Authenticate` header.
pub fn challenge(data: &[u8]) {
    let header = String::from_utf8_lossy(data);
    let challenges = Challenge::parse_all(&header);
    assert!(challenges.len() <= 16, "more is kept than may be");
    for challenge in &challenges {
        assert!(!challenge.scheme.is_empty() && header.contains(&challenge.scheme), "a scheme from nowhere");
        assert!(challenge.iter().count() <= 32, "more is kept than may be");
        for (name, value) in challenge.iter() {
            assert!(header.contains(name) && value.len() <= header.len(), "a parameter from nowhere");
            assert!(!value.contains(|letter: char| letter.is_control() && letter != '\t'));
            assert_eq!(challenge.get(&name.to_ascii_uppercase()), Some(value), "a parameter is there twice");
        }
    }
    let written: Vec<_> = challenges.iter().map(ToString::to_string).collect();
    let written = written.join(", ");
    // Quoting adds characters; anything beyond the limit is cut off.
    if written.len() <= 16 * 1024 {
        assert_eq!(Challenge::parse_all(&written), challenges, "others are read again");
    }
    let behind = Challenge::parse_all(&format!("First zq=1, {header}"));
    assert!(behind.first().is_some_and(|first| first.is_scheme("first") && first.get("zq") == Some("1")));
    check_requirement(&header, &challenges);
}

fn check_requirement(header: &str, challenges: &[Challenge]) {
    let asked =
        challenges.iter().any(|challenge| challenge.is_scheme("bearer") || challenge.is_scheme("dpop"));
    let demand = Requirement::parse(header);
    assert_eq!(demand.is_some(), asked);
    let Some(demand) = demand else { return };
    assert_eq!(demand.wants_dpop, challenges.iter().any(|challenge| challenge.is_scheme("dpop")));
    assert!(demand.resource_metadata.is_none_or(|url| url.len() <= URL_BYTES));
    for text in [demand.error, demand.error_description].into_iter().flatten() {
        assert!(!text.is_empty() && text.chars().count() <= 500 && !text.contains(char::is_control));
    }
    if let Some(scopes) = demand.scope {
        assert!(!scopes.is_empty() && scopes.len() <= 128);
        assert_eq!(Scopes::parse(&scopes.to_string()), scopes, "other scopes are read again");
    }
}
