use mcp_proto::auth::Scopes;
use proptest::prelude::*;

#[test]
fn scopes_keep_their_order_without_duplicates() {
    let scopes = Scopes::parse(" b a  b\tc ");
    assert_eq!(scopes.to_string(), "b a c");
    assert_eq!(scopes.len(), 3);
    assert!(scopes.contains("a") && !scopes.contains("A"));
    assert!(Scopes::parse("").is_empty() && Scopes::parse(" \n").is_empty());
}

/// C12.16: granted scopes are not lost when more are requested.
#[test]
fn union_begins_with_the_first_operand() {
    let union = Scopes::parse("read write").union(&Scopes::parse("admin read"));
    assert_eq!(union.to_string(), "read write admin");
    assert!(union.contains_all(&Scopes::parse("admin write")));
    assert!(!union.contains_all(&Scopes::parse("admin delete")));
    assert!(Scopes::default().contains_all(&Scopes::default()));
}

#[test]
fn parser_omits_invalid_scopes() {
    let scopes: Scopes =
        ["ok", "", "with space", "quo\"te", "back\\slash", "naïve", "nul\0", &"x".repeat(257)]
            .into_iter()
            .collect();
    assert_eq!(scopes.to_string(), "ok");
    assert_eq!(Scopes::parse(&"x".repeat(256)).len(), 1);
}

#[test]
fn parser_stores_at_most_128_scopes() {
    let many: Vec<_> = (0..100_000).map(|number| number.to_string()).collect();
    let scopes = Scopes::parse(&many.join(" "));
    assert_eq!((scopes.len(), scopes.iter().last()), (128, Some("127")));
    assert_eq!(scopes.union(&Scopes::parse("more")), scopes);
}

proptest! {
    #[test]
    fn scopes_round_trip(text in "[a-c \t\"é]{0,60}") {
        let scopes = Scopes::parse(&text);
        prop_assert_eq!(Scopes::parse(&scopes.to_string()), scopes.clone());
        prop_assert_eq!(scopes.union(&scopes), scopes);
    }
}
