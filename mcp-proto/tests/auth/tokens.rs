use core::time::Duration;

use mcp_proto::auth::{
    TokenEndpointError, TokenKind, TokenResponse, TokenResponseError, parse_token_response,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn granted(body: Value) -> TokenResponse {
    parse_token_response(200, body.to_string().as_bytes()).unwrap()
}

fn fault(body: impl ToString) -> TokenResponseError {
    match parse_token_response(200, body.to_string().as_bytes()) {
        Err(TokenEndpointError::Unreadable(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

fn lifetime(expires_in: Value) -> Option<Duration> {
    granted(json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in})).lifetime
}

#[test]
fn parser_reads_a_complete_response() {
    let granted = granted(json!({
        "access_token": "a.b-c", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "r", "scope": "x y",
        "id_token": "i", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "example": [1, {}],
    }));
    assert_eq!((granted.access.expose(), granted.kind), ("a.b-c", TokenKind::Bearer));
    assert_eq!(granted.lifetime, Some(Duration::from_secs(3600)));
    assert_eq!((granted.refresh.unwrap().expose(), granted.id_token.unwrap().expose()), ("r", "i"));
    assert_eq!(granted.scope.unwrap().to_string(), "x y");
    assert_eq!(granted.issued_type.as_deref(), Some("urn:ietf:params:oauth:token-type:access_token"));
}

/// C12.22: the refresh token is optional.
#[test]
fn parser_requires_only_the_token_and_its_type() {
    let granted =
        granted(json!({"access_token": "a", "token_type": "bearer", "refresh_token": null, "scope": ""}));
    assert_eq!((granted.refresh, granted.lifetime, granted.scope), (None, None, None));
    assert_eq!((granted.id_token, granted.issued_type), (None, None));
}

#[test]
fn parser_ignores_the_case_of_token_types() {
    for (kind, expected) in [
        ("bearer", TokenKind::Bearer),
        ("BEARER", TokenKind::Bearer),
        ("dpop", TokenKind::Dpop),
        ("DPoP", TokenKind::Dpop),
        ("N_A", TokenKind::Assertion),
        ("n_a", TokenKind::Assertion),
    ] {
        assert_eq!(granted(json!({"access_token": "a", "token_type": kind})).kind, expected);
    }
    assert_eq!(fault(json!({"access_token": "a", "token_type": "mac"})), TokenResponseError::UnknownKind);
    assert_eq!(
        fault(json!({"access_token": "a", "token_type": "Bearer DPoP"})),
        TokenResponseError::UnknownKind
    );
}

/// C12.24
#[test]
fn parser_accepts_many_forms_of_a_lifetime() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(lifetime(json!(3600)), seconds(3600));
    assert_eq!(lifetime(json!("3600")), seconds(3600));
    assert_eq!(lifetime(json!(3599.9)), seconds(3599));
    assert_eq!(lifetime(json!(" 60 ")), seconds(60));
    assert_eq!(lifetime(json!(0)), seconds(0));
    // Already expired.
    assert_eq!(lifetime(json!(-5)), seconds(0));
    assert_eq!(lifetime(json!("-5")), seconds(0));
    // Unknown.
    for unknown in [json!(null), json!(""), json!("soon"), json!("inf"), json!("NaN"), json!("nan")] {
        assert_eq!(lifetime(unknown.clone()), None, "{unknown}");
    }
}

#[test]
fn parser_limits_a_lifetime_to_ten_years() {
    let ten_years = Some(Duration::from_secs(315_360_000));
    assert_eq!(lifetime(json!(315_360_001)), ten_years);
    assert_eq!(lifetime(json!(u64::MAX)), ten_years);
    assert_eq!(lifetime(json!("99999999999999999999999999")), ten_years);
    for written in ["1e400", "999999999999999999999999999999"] {
        let body = format!(r#"{{"access_token":"a","token_type":"Bearer","expires_in":{written}}}"#);
        assert_eq!(parse_token_response(200, body.as_bytes()).unwrap().lifetime, ten_years);
    }
}

#[test]
fn error_names_a_member_of_the_wrong_type() {
    let with = |name: &str, value: Value| {
        let mut body = json!({"access_token": "a", "token_type": "Bearer"});
        body[name] = value;
        body
    };
    for name in [
        "access_token",
        "token_type",
        "refresh_token",
        "expires_in",
        "scope",
        "issued_token_type",
        "id_token",
    ] {
        for value in [json!(true), json!([]), json!({}), json!(["a"])] {
            assert!(
                matches!(fault(with(name, value)), TokenResponseError::InvalidMember(told) if told == name),
                "{name}"
            );
        }
    }
    assert_eq!(fault(with("access_token", json!(5))), TokenResponseError::InvalidMember("access_token"));
    assert_eq!(fault(json!({"token_type": "Bearer"})), TokenResponseError::Missing("access_token"));
    assert_eq!(fault(with("access_token", json!(""))), TokenResponseError::Missing("access_token"));
    assert_eq!(fault(with("token_type", json!(null))), TokenResponseError::Missing("token_type"));
    let twice = r#"{"access_token":"a","token_type":"Bearer","access_token":"b"}"#;
    assert_eq!(fault(twice), TokenResponseError::Duplicate("access_token"));
    assert_eq!(
        fault(r#"{"access_token":"a","token_type":"Bearer","access\u005ftoken":"b"}"#),
        TokenResponseError::Duplicate("access_token")
    );
}

/// C12.12: the token is used in a header, and nowhere else.
#[test]
fn parser_refuses_a_token_that_breaks_out_of_its_header() {
    for token in ["a\r\nX: y", "a b", "é", "a\0", "\u{7F}", &"x".repeat(64 * 1024 + 1)] {
        assert_eq!(
            fault(json!({"access_token": token, "token_type": "Bearer"})),
            TokenResponseError::InvalidMember("access_token")
        );
    }
    let long = "x".repeat(64 * 1024);
    assert_eq!(granted(json!({"access_token": long, "token_type": "Bearer"})).access.expose(), long);
}

/// RFC 8259, section 8.1
#[test]
fn parser_ignores_a_byte_order_mark() {
    let body = json!({"access_token": "a", "token_type": "Bearer"});
    let marked = format!("\u{FEFF}{body}");
    assert_eq!(parse_token_response(200, marked.as_bytes()).unwrap(), granted(body));
}

#[test]
fn error_distinguishes_a_form_from_other_text() {
    for body in [
        "",
        "null",
        "[]",
        "\"a\"",
        "5",
        "<html>\n<body>Sign in</body>",
        "{",
        "{\"access_token\":\"a\"} x",
        "\u{FEFF}\u{FEFF}{}",
    ] {
        assert_eq!(fault(body), TokenResponseError::Json, "{body}");
    }
    assert_eq!(fault("access_token=a&token_type=bearer"), TokenResponseError::Form);
    assert_eq!(fault("error=bad_verification_code&error_description=x"), TokenResponseError::Form);
    assert_eq!(fault("token_type=bearer&access_token=a"), TokenResponseError::Form);
    assert_eq!(
        parse_token_response(200, b"\xFF\xFE").unwrap_err(),
        TokenEndpointError::Unreadable(TokenResponseError::Json)
    );
    assert_eq!(
        TokenResponseError::Form.to_string(),
        "the token endpoint answers with a form rather than JSON"
    );
}

#[test]
fn parser_bounds_documents() {
    let answer = |padding: usize| {
        format!(r#"{{"access_token":"a","token_type":"Bearer","x":"{}"}}"#, "y".repeat(padding))
    };
    let rest = 256 * 1024 - answer(0).len();
    assert!(parse_token_response(200, answer(rest).as_bytes()).is_ok());
    assert_eq!(fault(answer(rest + 1)), TokenResponseError::TooLong);
    let deep = format!(r#"{{"access_token":"a","token_type":"Bearer","x":{}"#, "[".repeat(200_000));
    assert_eq!(fault(deep), TokenResponseError::Json);
    assert_eq!(parse_token_response(400, answer(rest + 1).as_bytes()), Err(TokenEndpointError::Status(400)));
}

fn refused(status: u16, body: impl ToString) -> TokenEndpointError {
    parse_token_response(status, body.to_string().as_bytes()).unwrap_err()
}

#[test]
fn error_response_tells_its_reason() {
    let refusal =
        refused(400, json!({"error": "invalid_grant", "error_description": "The code\n\u{1B}[31m is used."}));
    let expected = TokenEndpointError::Refused {
        error: "invalid_grant".into(),
        description: Some("The code[31m is used.".into()),
    };
    assert_eq!(refusal, expected);
    assert_eq!(refusal.to_string(), "the authorization server refuses: invalid_grant: The code[31m is used.");
    let TokenEndpointError::Refused { description, .. } =
        refused(401, json!({"error": "invalid_client", "error_description": "x".repeat(100_000)}))
    else {
        panic!()
    };
    assert_eq!(description.unwrap().len(), 500);
    // An invalid description does not prevent reading the code.
    let odd = refused(400, json!({"error": "invalid_grant", "error_description": 5}));
    assert_eq!(odd, TokenEndpointError::Refused { error: "invalid_grant".into(), description: None });
}

#[test]
fn parser_accepts_an_error_response_with_status_200() {
    let refusal = refused(200, json!({"error": "bad_verification_code"}));
    assert_eq!(
        refusal,
        TokenEndpointError::Refused { error: "bad_verification_code".into(), description: None }
    );
    assert!(!refusal.is_definitive());
    let body = json!({"access_token": "a", "token_type": "Bearer", "error": "none"});
    assert!(parse_token_response(200, body.to_string().as_bytes()).is_ok());
    // But no token with an error status.
    assert_eq!(
        refused(400, json!({"access_token": "a", "token_type": "Bearer"})),
        TokenEndpointError::Status(400)
    );
}

#[test]
fn only_a_definitive_error_ends_a_grant() {
    for error in ["invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "invalid_target"]
    {
        assert!(refused(400, json!({"error": error})).is_definitive(), "{error}");
        for status in [429, 500, 502, 503, 302, 100, 0, 999] {
            let refusal = refused(status, json!({"error": error}));
            assert_eq!(refusal, TokenEndpointError::Status(status));
            assert!(!refusal.is_definitive());
        }
    }
    for error in
        ["temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce", "Invalid_Grant", "?"]
    {
        assert!(!refused(400, json!({"error": error})).is_definitive(), "{error}");
    }
    assert!(!refused(404, "<html>").is_definitive());
    assert!(!refused(200, "<html>").is_definitive());
    assert!(!refused(400, json!({"error": ["invalid_grant"]})).is_definitive());
    assert!(!refused(400, r#"{"error":"x","error":"invalid_grant"}"#).is_definitive());
}

#[test]
fn error_response_may_require_a_nonce() {
    assert!(refused(400, json!({"error": "use_dpop_nonce"})).is_use_dpop_nonce());
    assert!(!refused(400, json!({"error": "invalid_dpop_proof"})).is_use_dpop_nonce());
}

#[test]
fn debug_output_hides_tokens() {
    let answer = granted(json!({
        "access_token": "hunter2", "token_type": "Bearer", "refresh_token": "hunter2", "id_token": "hunter2",
    }));
    assert!(!format!("{answer:?} {answer:#?}").contains("hunter2"));
    for body in [
        r#"{"access_token":"hunter2","token_type":5}"#,
        r#"{"access_token":"hunter2","token_type":"mac"}"#,
        r#"{"access_token":["hunter2"]}"#,
        r#"{"access_token":"hunter2 "}"#,
        r#"{"access_token":"hunter2"#,
        "access_token=hunter2",
    ] {
        let refusal = refused(200, body);
        assert!(!format!("{refusal:?} {refusal}").contains("hunter2"), "{body}");
    }
}

proptest! {
    #[test]
    fn parser_accepts_any_response_without_panic(status in 0u16..700, body in any::<Vec<u8>>()) {
        let _ = parse_token_response(status, &body);
    }

    #[test]
    fn only_a_success_status_grants_a_token(status in prop::sample::select(vec![0, 100, 199, 300, 400, 401, 403, 429, 500])) {
        let body = br#"{"access_token":"a","token_type":"Bearer"}"#;
        prop_assert_eq!(parse_token_response(status, body), Err(TokenEndpointError::Status(status)));
    }
}
