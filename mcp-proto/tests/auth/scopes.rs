use mcp_proto::auth::Scopes;

#[test]
fn scopes_are_kept_in_order_and_each_once() {
    let scopes = Scopes::parse(" b a  b\tc ");
    assert_eq!(scopes.to_string(), "b a c");
    assert_eq!(scopes.len(), 3);
    assert!(scopes.contains("a") && !scopes.contains("A"));
    assert!(Scopes::parse("").is_empty());
}
