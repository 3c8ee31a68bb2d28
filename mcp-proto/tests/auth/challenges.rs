use mcp_proto::auth::{Challenge, Requirement};
use mcp_proto::consent::SafeText;
use proptest::prelude::*;

/// The challenges of a header in a normal form.
fn read(header: &str) -> Vec<String> {
    Challenge::parse_all(header).iter().map(ToString::to_string).collect()
}

/// C12.2
#[test]
fn parser_reads_several_challenges_of_one_header() {
    let header =
        r#"Negotiate, Basic realm="a",charset="UTF-8" , Bearer resource_metadata="https://x/y", scope="a b""#;
    let expected = [
        "Negotiate",
        r#"Basic realm="a", charset="UTF-8""#,
        r#"Bearer resource_metadata="https://x/y", scope="a b""#,
    ];
    assert_eq!(read(header), expected);
}

/// C12.2
#[test]
fn parser_takes_quoted_commas_equals_signs_and_schemes_as_text() {
    assert_eq!(read(r#"Bearer realm="a, DPoP b=c", x="=,=""#), [r#"Bearer realm="a, DPoP b=c", x="=,=""#]);
    let challenges = Challenge::parse_all(r#"Bearer realm="say \"hi, you\", \\ \a""#);
    assert_eq!(challenges[0].get("realm"), Some(r#"say "hi, you", \ a"#));
}

#[test]
fn parser_ignores_the_case_of_names_and_schemes() {
    let challenges = Challenge::parse_all("bEARER SCOPE=a");
    assert!(challenges[0].is_scheme("Bearer") && !challenges[0].is_scheme("Bear"));
    assert_eq!(challenges[0].get("scope"), Some("a"));
}

#[test]
fn parser_skips_a_token68_with_its_padding() {
    assert_eq!(read("Negotiate YWJj/+-._~==, Bearer a=b"), ["Negotiate", r#"Bearer a="b""#]);
    assert_eq!(read("Negotiate YWJj=,Basic"), ["Negotiate", "Basic"]);
    assert_eq!(read("Negotiate YWJj"), ["Negotiate"]);
    assert_eq!(read("Negotiate YWJj== , DPoP"), ["Negotiate", "DPoP"]);
    // A parameter with an empty value looks like a token68, and is none.
    assert_eq!(read("Bearer realm=, a=b"), [r#"Bearer a="b""#]);
}

#[test]
fn parser_accepts_blanks_around_the_equals_sign() {
    assert_eq!(read("Bearer \t a = \"b\" , c\t=d"), [r#"Bearer a="b", c="d""#]);
}

#[test]
fn parser_ignores_empty_elements() {
    assert_eq!(read(" , ,, Bearer , ,a=b,, ,DPoP,"), [r#"Bearer a="b""#, "DPoP"]);
    assert!(read("").is_empty() && read(" \t ,, ").is_empty());
}

#[test]
fn parser_takes_the_first_of_two_parameters() {
    assert_eq!(read("Bearer scope=a, Scope=b"), [r#"Bearer scope="a""#]);
}

/// Servers in use write such headers.
#[test]
fn parser_tolerates_missing_quotes_and_commas() {
    let metadata = "https://x.example/.well-known/oauth-protected-resource?a=b";
    let expected = format!(r#"Bearer resource_metadata="{metadata}", scope="a b""#);
    assert_eq!(read(&format!(r#"Bearer resource_metadata={metadata}, scope="a b""#)), [expected.as_str()]);
    assert_eq!(read(&format!(r#"Bearer resource_metadata="{metadata}" scope="a b""#)), [expected.as_str()]);
}

#[test]
fn parser_skips_unreadable_text_to_the_next_comma() {
    assert_eq!(
        read("Bearer error_description=The token expired, scope=a"),
        [r#"Bearer error_description="The", scope="a""#]
    );
    assert_eq!(read("Bearer ;;;, a=b"), [r#"Bearer a="b""#]);
    assert_eq!(read("Bearer The token expired, scope=a"), [r#"Bearer scope="a""#]);
    assert_eq!(read(r#"@"x, Basic", Bearer a=b"#), [r#"Bearer a="b""#]);
    assert_eq!(read("Bea/rer a=b, DPoP"), ["DPoP"]);
    assert_eq!(read(r#"Bearer a="b"c, d=e"#), [r#"Bearer a="b", d="e""#]);
    assert_eq!(read("=a, Bearer"), ["Bearer"]);
    // A parameter without a challenge.
    assert_eq!(read("a=b, Bearer"), ["Bearer"]);
}

#[test]
fn parser_ignores_an_unterminated_quoted_string() {
    assert_eq!(read(r#"Bearer a=b, scope="c, d=e"#), [r#"Bearer a="b""#]);
    assert_eq!(read(r#"Bearer a="b\"#), ["Bearer"]);
    assert_eq!(read(r#"Bearer ""#), ["Bearer"]);
}

#[test]
fn parser_drops_values_with_control_characters() {
    assert_eq!(read("Bearer a=\"x\ny\", b=\"x\ty\", c=\"\u{7F}\", d=é"), ["Bearer b=\"x\ty\""]);
}

#[test]
fn parser_accepts_quoted_characters_beyond_ascii() {
    assert_eq!(Challenge::parse_all("Bearer a=\"é…\"")[0].get("a"), Some("é…"));
    assert!(read("é").is_empty());
}

#[test]
fn parsed_challenges_are_bounded() {
    let schemes: Vec<_> = (0..1000).map(|number| format!("S{number} a={number}")).collect();
    let challenges = read(&schemes.join(","));
    assert_eq!(challenges.len(), 16);
    // Parameters of the seventeenth challenge are not taken for the sixteenth's.
    assert_eq!(challenges[15], r#"S15 a="15""#);

    let parameters: Vec<_> = (0..1000).map(|number| format!("p{number}=a")).collect();
    let challenges = Challenge::parse_all(&format!("Bearer {}", parameters.join(",")));
    assert_eq!((challenges[0].get("p31"), challenges[0].get("p32")), (Some("a"), None));

    let long = format!("Bearer a=\"{}\", b=c", "é".repeat(1_000_000));
    assert_eq!(read(&long), ["Bearer"]);
}

#[test]
fn requirement_comes_from_a_bearer_challenge() {
    let header = r#"Basic realm="x", Bearer resource_metadata="https://x/m", scope="b a b", error="invalid_token", error_description="Expired.""#;
    let demand = Requirement::parse(header).unwrap();
    assert_eq!(demand.resource_metadata.as_deref(), Some("https://x/m"));
    assert_eq!(demand.scope.as_ref().unwrap().to_string(), "b a");
    assert_eq!(demand.error.as_deref(), Some("invalid_token"));
    assert_eq!(demand.error_description.as_deref(), Some("Expired."));
    assert!(!demand.wants_dpop && !demand.is_insufficient_scope() && !demand.is_use_dpop_nonce());
}

#[test]
fn header_without_bearer_and_dpop_requires_nothing() {
    assert_eq!(Requirement::parse(r#"Basic realm="Bearer", Negotiate"#), None);
    assert_eq!(Requirement::parse(""), None);
    assert_eq!(Requirement::parse("Bearer"), Some(Requirement::default()));
}

#[test]
fn dpop_challenge_completes_the_bearer_challenge() {
    let header = r#"DPoP algs="ES256", scope="d", resource_metadata="https://x/d", Bearer scope="b""#;
    let demand = Requirement::parse(header).unwrap();
    assert!(demand.wants_dpop);
    assert_eq!(demand.scope.unwrap().to_string(), "b");
    assert_eq!(demand.resource_metadata.as_deref(), Some("https://x/d"));
}

#[test]
fn requirement_recognises_a_nonce_request_beside_another_error() {
    let demand = Requirement::parse(r#"Bearer error="invalid_token", DPoP error="use_dpop_nonce""#).unwrap();
    assert!(demand.is_use_dpop_nonce());
    assert!(!Requirement::parse(r#"Bearer error="use_dpop"#).unwrap().is_use_dpop_nonce());
}

/// C12.16
#[test]
fn requirement_distinguishes_insufficient_scope_from_an_invalid_token() {
    let demand = Requirement::parse(r#"bearer ERROR=insufficient_scope, scope="files:write""#).unwrap();
    assert!(demand.is_insufficient_scope());
    assert_eq!(demand.scope.unwrap().to_string(), "files:write");
}

#[test]
fn displayed_parameters_have_no_characters_that_safe_text_escapes() {
    let hidden = ('\0'..=char::MAX).filter(|&letter| SafeText::is_unsafe(letter) && !letter.is_control());
    for header in hidden.map(|letter| format!("Bearer error=\"a{letter}b\"")) {
        assert_eq!(Requirement::parse(&header).unwrap().error.as_deref(), Some("ab"), "{header:?}");
    }
}

#[test]
fn displayed_parameters_are_bounded_and_have_no_control_characters() {
    let header = format!("Bearer error=\"a\u{202E}b\", error_description=\"{}\"", "long ".repeat(1000));
    let demand = Requirement::parse(&header).unwrap();
    assert_eq!(demand.error.as_deref(), Some("ab"));
    assert_eq!(demand.error_description.unwrap().len(), 500);
    assert_eq!(
        Requirement::parse(r#"Bearer scope="", error="", resource_metadata="""#),
        Some(Requirement::default())
    );
    let long = format!(r#"Bearer resource_metadata="https://x/{}""#, "y".repeat(8192));
    assert_eq!(Requirement::parse(&long).unwrap().resource_metadata, None);
}

#[test]
fn written_value_cannot_start_another_parameter() {
    let challenge = Challenge::new("Bearer").with("error_description", "a\r\nX-Evil: b\", scope=\"admin\\");
    let text = challenge.to_string();
    assert_eq!(text, r#"Bearer error_description="aX-Evil: b\", scope=\"admin\\""#);
    assert_eq!(Challenge::parse_all(&text), [challenge]);
}

proptest! {
    #[test]
    fn any_text_is_parsed_and_round_trips(header in r#"[ab=",\\ \t;é~]{0,80}"#) {
        let challenges = Challenge::parse_all(&header);
        let written: Vec<_> = challenges.iter().map(ToString::to_string).collect();
        prop_assert_eq!(Challenge::parse_all(&written.join(", ")), challenges);
    }

    #[test]
    fn any_value_round_trips(value in "[^\\p{Cc}]{0,40}") {
        let challenge = Challenge::new("Bearer").with("a", &value).with("b", "c");
        prop_assert_eq!(Challenge::parse_all(&challenge.to_string()), [challenge]);
    }
}
