use super::*;

fn vars(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
    let matched = UriTemplate::parse(template).unwrap().matches(uri)?;
    Some(matched.iter().map(|(name, value)| (name.to_string(), value.clone())).collect())
}

fn one(name: &str, value: &str) -> Option<Vec<(String, String)>> {
    Some(vec![(name.to_string(), value.to_string())])
}

fn several(pairs: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
    Some(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
}

#[test]
fn variable_matches_one_segment() {
    assert_eq!(vars("note:///{id}", "note:///7"), one("id", "7"));
    assert_eq!(vars("note:///{id}", "note:///a/b"), None);
    assert_eq!(vars("note:///{id}", "note:///"), None);
    assert_eq!(vars("note:///{id}", "other:///7"), None);
}

#[test]
fn reserved_variable_matches_a_whole_path() {
    assert_eq!(vars("file:///{+path}", "file:///a/b?c#d"), one("path", "a/b?c#d"));
}

#[test]
fn text_after_the_last_variable_is_a_suffix() {
    assert_eq!(vars("f:/{name}.txt", "f:/a.txt.txt"), one("name", "a.txt"));
    assert_eq!(vars("f:/{name}.txt", "f:/.txt"), None);
}

#[test]
fn variable_matches_as_little_as_possible() {
    assert_eq!(vars("t:{a}-{b}", "t:x-y-z"), several(&[("a", "x"), ("b", "y-z")]));
    assert_eq!(vars("t:{a}-{b}", "t:--y"), several(&[("a", "-"), ("b", "y")]));
}

#[test]
fn template_decodes_percent_encoded_values() {
    assert_eq!(vars("u:{v}", "u:a%20b%C3%A9"), one("v", "a bé"));
    assert_eq!(vars("u:{v}", "u:a%2"), None);
    assert_eq!(vars("u:{v}", "u:%FF"), None);
}

#[test]
fn segment_does_not_lead_out_of_its_directory() {
    let refused = [
        "..",
        ".",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%2e",
        "a%2Fb",
        "a%2fb",
        "..%2f",
        "%2F",
        "a%5Cb",
        "..%5c",
        "a\\b",
        "a%00",
        "%00",
        "%c0%ae%c0%ae",
        "%c0%af",
        "%e0%80%af",
        "%f0%80%80%af",
        "../a",
        "a/..",
        "..%2f..%2fetc%2fpasswd",
    ];
    for value in refused {
        assert_eq!(vars("file:///root/{name}", &format!("file:///root/{value}")), None, "{value}");
        assert_eq!(vars("file:///root/{name}.txt", &format!("file:///root/{value}.txt")), None, "{value}");
        assert_eq!(vars("f://r/{a}/{b}", &format!("f://r/x/{value}")), None, "{value}");
        assert_eq!(vars("f://r/{a}/{b}", &format!("f://r/{value}/x")), None, "{value}");
        assert_eq!(vars("f://r{/a}", &format!("f://r/{value}")), None, "{value}");
    }
}

#[test]
fn template_decodes_a_segment_once() {
    for (value, decoded) in [("%252e%252e", "%2e%2e"), ("%252F", "%2F"), ("%255C", "%5C"), ("%2500", "%00")] {
        assert_eq!(vars("f:///{name}", &format!("f:///{value}")), one("name", decoded));
    }
    for value in ["...", "..a", "a..", ".a", "a.b", "a..b"] {
        assert_eq!(vars("f:///{name}", &format!("f:///{value}")), one("name", value));
    }
}

#[test]
fn path_has_no_parent_segment() {
    let refused = [
        "..",
        "../a",
        "a/..",
        "a/../b",
        "%2e%2e/a",
        "a/%2e%2e",
        "..%2fa",
        "a%2f..%2fb",
        "..\\a",
        "..%5Ca",
        "a%5c..",
        "a\\..\\b",
        "a%00b",
        "%c0%ae%c0%ae/a",
        "/..",
        "a//..",
    ];
    for value in refused {
        assert_eq!(vars("file:///root/{+path}", &format!("file:///root/{value}")), None, "{value}");
        assert_eq!(vars("file:///root/{+path}/x", &format!("file:///root/{value}/x")), None, "{value}");
        assert_eq!(vars("f://r{/path*}", &format!("f://r/{value}")), None, "{value}");
        assert_eq!(vars("f://r{#path}", &format!("f://r#{value}")), None, "{value}");
        assert_eq!(vars("f://r{?path}", &format!("f://r?path={value}")), None, "{value}");
    }
    for value in ["a/b", "./a", "a/.", "...", "a/..b", "%252e%252e/a"] {
        let decoded = value.replace("%25", "%");
        assert_eq!(vars("f:///{+path}", &format!("f:///{value}")), one("path", &decoded));
    }
}

#[test]
fn expression_may_have_several_variables() {
    let both = several(&[("a", "1"), ("b", "2")]);
    assert_eq!(vars("u:{a,b}", "u:1,2"), both);
    assert_eq!(vars("u:x{/a,b}", "u:x/1/2"), both);
    assert_eq!(vars("u:x{/a}{/b}", "u:x/1/2"), both);
    assert_eq!(vars("u:{+a,b}", "u:1,2"), both);
    assert_eq!(vars("u:x{#a,b}", "u:x#1,2"), both);
    assert_eq!(vars("u:{a}{#b}", "u:1#2"), both);
    for uri in ["u:1", "u:1,", "u:,2", "u:1/2"] {
        assert_eq!(vars("u:{a,b}", uri), None, "{uri}");
    }
}

#[test]
fn exploded_variable_matches_the_rest_of_a_path() {
    assert_eq!(vars("f://r{/path*}", "f://r/a/b%20c"), one("path", "a/b c"));
    assert_eq!(vars("f://r{/path*}/edit", "f://r/a/b/edit"), one("path", "a/b"));
    for uri in ["f://r", "f://r/", "f://r/a/", "f://r//a", "f://r/a/./b", "f://r/a%2Fb", "f://r/a?b"] {
        assert_eq!(vars("f://r{/path*}", uri), None, "{uri}");
    }
}

#[test]
fn query_parameters_are_optional_and_in_any_order() {
    let template = "s://x/{id}{?q,lang}";
    assert_eq!(vars(template, "s://x/7"), one("id", "7"));
    assert_eq!(vars(template, "s://x/7?q=a%20b"), several(&[("id", "7"), ("q", "a b")]));
    assert_eq!(vars(template, "s://x/7?lang=de&q="), several(&[("id", "7"), ("lang", "de"), ("q", "")]));
    for uri in [
        "s://x/7?other=1",
        "s://x/7?q=1&q=2",
        "s://x/7?q",
        "s://x/7?",
        "s://x/7?q=1&",
        "s://x/7?q=1#f",
        "s://x/7?q=1?lang=2",
        "s://x/7#?q=1",
    ] {
        assert_eq!(vars(template, uri), None, "{uri}");
    }
}

#[test]
fn query_continuation_extends_a_query() {
    let template = "s://x?fixed=1&also={v}{&page}";
    assert_eq!(vars(template, "s://x?fixed=1&also=2&page=3"), several(&[("v", "2"), ("page", "3")]));
    let template = "s://x?fixed=1{&page}";
    assert_eq!(vars("s://x?v={v}{&page}", "s://x?v=2&page=3"), several(&[("v", "2"), ("page", "3")]));
    assert_eq!(vars(template, "s://x?fixed=1"), Some(vec![]));
    assert_eq!(vars(template, "s://x?fixed=1&page=3"), one("page", "3"));
    assert_eq!(vars(template, "s://x?fixed=2&page=3"), None);
    assert_eq!(vars(template, "s://x?page=3&fixed=1"), None);
}

#[test]
fn parser_refuses_an_unsupported_template() {
    let error = |template: &str| UriTemplate::parse(template).unwrap_err();
    assert_eq!(error("a:b"), TemplateError::NoVariable);
    assert_eq!(error("a:{b"), TemplateError::Unbalanced);
    assert_eq!(error("a}:{b}"), TemplateError::Unbalanced);
    assert_eq!(error("a:{b}}"), TemplateError::Unbalanced);
    assert_eq!(error("a:{b}{c}"), TemplateError::Adjacent { variable: "c".into() });
    for variable in
        ["", ";b", ".b", "b*", "+b*", "?b*", "/b,c*", "/b*,c", "b:3", "=b", "b,", "b c", "|b", "?", "+"]
    {
        let unsupported = TemplateError::Unsupported { variable: variable.into() };
        assert_eq!(error(&format!("a:{{{variable}}}")), unsupported);
        assert!(unsupported.to_string().contains("{?a,b}"), "the error lists what is supported");
    }
    for (template, variable) in
        [("a:{?b}/c", "?b"), ("a:{?b}{c}", "?b"), ("a?x=1{?b}", "?b"), ("a:{&b}", "&b")]
    {
        assert_eq!(error(template), TemplateError::Query { variable: variable.into() }, "{template}");
    }
    for template in ["a:{b}/{b}", "a:{b,b}", "a:{b}{?c,b}"] {
        assert_eq!(error(template), TemplateError::Repeated { name: "b".into() }, "{template}");
    }
}

#[test]
fn parser_distinguishes_a_scheme_from_a_path() {
    assert!(is_uri("file:///x") && is_uri("a+b-c.1:x"));
    assert!(!is_uri("/x:y") && !is_uri("1a:x") && !is_uri("x") && !is_uri(":x"));
}
