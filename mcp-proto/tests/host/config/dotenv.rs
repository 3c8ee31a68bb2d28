use mcp_proto::host::config::{DotenvError, ENV_FILE_BYTES, parse_dotenv};
use proptest::prelude::*;

fn read(text: &str) -> Vec<(String, String)> {
    let variables = parse_dotenv(text).unwrap();
    variables.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect()
}

fn value(text: &str) -> String {
    read(&format!("A={text}")).remove(0).1
}

#[test]
fn assignments_are_read() {
    let text =
        "\u{feff}# first\r\nA=1\r\n\r\n  export B = two words  # comment\n\tC='x' # y\nexport=e\nA=2\nD=";
    let expected = [("A", "2"), ("B", "two words"), ("C", "x"), ("D", ""), ("export", "e")];
    assert_eq!(read(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn quotes_and_comments_delimit_values() {
    assert_eq!(value("a#b #c"), "a#b");
    assert_eq!(value("#c"), "");
    assert_eq!(value("'a\\n$B `c` \"'"), "a\\n$B `c` \"");
    assert_eq!(value(r#""a\n\t\"\\\$B\x""#), "a\n\t\"\\$B\\x");
    assert_eq!(value("\"one\ntwo\" # end\nB=1"), "one\ntwo");
    assert_eq!(value("$(id) ${X} `id`"), "$(id) ${X} `id`");
}

#[test]
fn error_has_the_line_where_the_assignment_begins() {
    for (text, line) in [
        ("A=1\nnonsense", 2),
        ("A=\"1\n2\n3\"\nB C=1\n", 4),
        ("\n\n=1", 3),
        ("A='open\n\n", 1),
        ("A='x' y", 1),
        ("A=a\0b", 1),
        ("A=\"a\0\"", 1),
        ("A=1\n$B=1", 2),
    ] {
        assert_eq!(parse_dotenv(text).unwrap_err(), DotenvError { line }, "{text:?}");
    }
}

#[test]
fn file_is_bounded() {
    assert_eq!(parse_dotenv(&" ".repeat(ENV_FILE_BYTES + 1)).unwrap_err().line, 0);
    let many: String = (0..1025).map(|n| format!("A{n}=1\n")).collect();
    assert_eq!(parse_dotenv(&many).unwrap_err().line, 1025);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_read_or_an_error(text in "(A|=|'|\"|\\\\|#|\n|\r| |export |\\$|é|\0){0,30}") {
        if let Err(error) = parse_dotenv(&text) {
            prop_assert!((1..=text.matches('\n').count() + 1).contains(&error.line));
        }
    }

    #[test]
    fn quoted_value_is_read_back(value in "[^\0]*") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(read(&format!("A=\"{quoted}\"")), [("A".to_owned(), value)]);
    }
}
