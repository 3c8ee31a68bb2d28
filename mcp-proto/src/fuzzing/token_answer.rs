//! Fuzzing of token endpoints' answers.

use alloc::format;
use alloc::string::ToString;
use core::time::Duration;

use serde_json::json;

use crate::auth::{Secret, TokenEndpointError, TokenKind, TokenResponse, parse_token_response};

/// Reads the input as the status and the body of an answer.
pub fn token_answer(data: &[u8]) {
    let Some(([high, low], body)) = data.split_first_chunk() else { return };
    let status = u16::from_be_bytes([*high, *low]) % 600;
    match parse_token_response(status, body) {
        Ok(granted) => {
            assert!((200..300).contains(&status), "a token is granted with status {status}");
            check_grant(&granted);
        }
        Err(refusal) => check_error(status, &refusal),
    }
    // With the status replaced by success.
    if let Ok(granted) = parse_token_response(200, body) {
        check_grant(&granted);
    }
    check_error(400, &parse_token_response(400, body).unwrap_err());
    check_error(503, &parse_token_response(503, body).unwrap_err());
}

fn check_grant(granted: &TokenResponse) {
    let sound = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(sound(granted.access.expose()), "a token that no header may have");
    assert!(granted.lifetime.is_none_or(|lifetime| lifetime <= Duration::from_secs(315_360_000)));
    let written = json!({
        "access_token": granted.access.expose(),
        "token_type": match granted.kind {
            TokenKind::Bearer => "Bearer",
            TokenKind::Dpop => "DPoP",
            TokenKind::Assertion => "N_A",
        },
        "refresh_token": granted.refresh.as_ref().map(Secret::expose),
        "expires_in": granted.lifetime.map(|lifetime| lifetime.as_secs()),
        "scope": granted.scope.as_ref().map(ToString::to_string),
        "issued_token_type": granted.issued_type,
        "id_token": granted.id_token.as_ref().map(Secret::expose),
    });
    let again = parse_token_response(200, format!("{written}").as_bytes());
    assert_eq!(again.as_ref(), Ok(granted), "another token is read again");
}

fn check_error(status: u16, refusal: &TokenEndpointError) {
    let shown = refusal.to_string();
    assert!(!shown.contains(char::is_control) && shown.chars().count() < 1000, "not for showing");
    let said = (200..300).contains(&status) || ((400..500).contains(&status) && status != 429);
    assert!(said || *refusal == TokenEndpointError::Status(status), "a broken server is believed");
    assert!(!refusal.is_definitive() || matches!(refusal, TokenEndpointError::Refused { .. }));
    assert!(!(refusal.is_definitive() && refusal.is_use_dpop_nonce()));
    if let TokenEndpointError::Refused { error, description } = refusal {
        let body = json!({"error": error, "error_description": description});
        let again: Result<TokenResponse, _> = parse_token_response(400, format!("{body}").as_bytes());
        assert_eq!(again.as_ref(), Err(refusal), "another refusal is read again");
    }
}
