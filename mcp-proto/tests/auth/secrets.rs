use mcp_proto::Bytes;
use mcp_proto::auth::{Fetch, FetchId, Secret};
use mcp_proto::transport::http::Verb;

#[test]
fn debug_output_hides_a_secret() {
    let secret = Secret::new("hunter2");
    assert_eq!(
        format!("{secret:?} {secret:#?} {:?}", Some(&secret)),
        "Secret(..) Secret(..) Some(Secret(..))"
    );
    assert_eq!(secret.clone().expose(), "hunter2");
}

/// F108
#[test]
fn secrets_are_equal_if_their_texts_are() {
    assert_eq!(Secret::new("a"), Secret::new(String::from("a")));
    assert_ne!(Secret::new("a"), Secret::new("b"));
    assert_ne!(Secret::new("a"), Secret::new("ab"));
    assert_ne!(Secret::new(""), Secret::new("a"));
}

#[test]
fn debug_output_of_a_fetch_hides_secrets() {
    let fetch = Fetch {
        id: FetchId::new(7),
        verb: Verb::Post,
        url: "https://auth.example.com/token?hint=hunter2".into(),
        headers: vec![("authorization", Secret::new("Basic hunter2"))],
        body: Bytes::from_static(b"code=hunter2"),
        limit: 1000,
    };
    let shown = format!("{fetch:?} {fetch:#?}");
    assert!(!shown.contains("hunter2"));
    assert!(shown.contains("https://auth.example.com/token") && shown.contains("authorization"));
    assert_eq!(fetch.id.number(), 7);
}
