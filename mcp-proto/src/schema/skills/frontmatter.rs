//! The frontmatter of a `SKILL.md`: what a listing repeats, and a host compares with it.

use serde_json::Value;

use super::plain_scalar;
use super::yaml::{self, Fields, FrontmatterError, FrontmatterMismatch, Node};
use super::{Json, Map, Skill};
use crate::ordered_map::OrderedMap;
use crate::prelude::*;
use crate::rpc::write;
use crate::schema::read::read_text;

/// The length in bytes of the longest frontmatter.
const MAX_FRONTMATTER: usize = 64 * 1024;

/// The frontmatter of a `SKILL.md`: the YAML between two lines of `---` at its beginning.
///
/// It is read without anchors, aliases and tags; each is an error, and so are directives, keys that are not scalars,
/// repeated keys and merge keys. It may have 64 KiB, and 16 levels. Scalars without quotes keep their source text, since
/// versions of YAML differ in their meaning: `on`, `0x10` and `1.10` may be text, or not.
///
/// ```
/// use mcp_proto::schema::skills::Frontmatter;
///
/// let frontmatter =
///     Frontmatter::parse("---\nname: knots\ndescription: >\n  Ties\n  knots\nversion: 1.10\n---\n\n# Knots\n")?;
/// assert_eq!(frontmatter.name(), "knots");
/// let listed = frontmatter.to_json();
/// assert_eq!(listed.get("version").unwrap().as_str(), "1.1");
/// assert_eq!(frontmatter.compare(&listed), Ok(()));
/// # Ok::<(), mcp_proto::schema::skills::FrontmatterError>(())
/// ```
///
/// <https://agentskills.io/specification>
#[derive(Clone, Debug, PartialEq)]
pub struct Frontmatter {
    fields: Fields,
}

impl Frontmatter {
    //= S12.2 "begins with frontmatter with `name` and `description`"
    /// Reads the frontmatter of a `SKILL.md`.
    ///
    /// # Errors
    /// If the file has none, if it is not the YAML described above, or if it lacks `name` or `description`, which are
    /// scalars.
    pub fn parse(main_file: &str) -> Result<Self, FrontmatterError> {
        let fields = yaml::read_map(cut(main_file)?)?;
        let frontmatter = Self { fields };
        for field in ["name", "description"] {
            if !frontmatter.has_text(field) {
                return Err(FrontmatterError::Field { field });
            }
        }
        Ok(frontmatter)
    }

    /// The name of the skill, as its source has it.
    pub fn name(&self) -> &str {
        self.scalar("name").unwrap_or_default()
    }

    /// The description of the skill.
    pub fn description(&self) -> &str {
        self.scalar("description").unwrap_or_default()
    }

    /// The text of a field that is a scalar; without quotes, its source.
    pub fn scalar(&self, field: &str) -> Option<&str> {
        self.field(field)?.as_text()
    }

    fn field(&self, field: &str) -> Option<&Node> {
        self.fields.iter().find(|(name, _)| name.as_text() == Some(field)).map(|(_, node)| node)
    }

    fn has_text(&self, field: &str) -> bool {
        let is_text = |node: &Node| !node.is_null() && node.as_text().is_some_and(|text| !text.is_empty());
        self.field(field).is_some_and(is_text)
    }

    //= S12.3 "identical in content to that of the `SKILL.md`"
    /// Its fields as JSON, by the core schema of YAML 1.2, in their order: what a listing has. Numbers that JSON lacks, such
    /// as `.inf`, are text.
    ///
    /// <https://yaml.org/spec/1.2.2/#103-core-schema>
    pub fn to_json(&self) -> Map<Json> {
        self.fields.iter().map(|(name, node)| (name.as_text().unwrap_or_default(), to_json(node))).collect()
    }

    /// Compares each field with an entry's: see [`Skill::frontmatter`]. A scalar without quotes equals its source text, and
    /// whatever a version of YAML reads it as, also as a key; infinities, which JSON lacks, equal `null` too. A missing field
    /// equals `null`. Readers may have cut the last line feed off a block of lines that ends the frontmatter.
    ///
    /// # Errors
    /// The first field that differs, or is listed twice. A host must not load the skill.
    pub fn compare(&self, listed: &Map<Json>) -> Result<(), FrontmatterMismatch> {
        differing(&self.fields, listed).map_or(Ok(()), |field| Err(FrontmatterMismatch { field }))
    }
}

/// The YAML between the lines of `---`.
fn cut(main_file: &str) -> Result<&str, FrontmatterError> {
    let text = main_file.strip_prefix('\u{feff}').unwrap_or(main_file);
    let (first, rest) = text.split_once('\n').ok_or(FrontmatterError::Missing)?;
    if !is_mark(first) {
        return Err(FrontmatterError::Missing);
    }
    let mut length = 0_usize;
    for line in rest.split_inclusive('\n') {
        if is_mark(line) {
            return rest.get(..length).ok_or(FrontmatterError::Missing);
        }
        length = length.saturating_add(line.len());
        if length > MAX_FRONTMATTER {
            return Err(FrontmatterError::TooLarge);
        }
    }
    Err(FrontmatterError::Missing)
}

fn is_mark(line: &str) -> bool {
    line.trim_end_matches(['\n', '\r', ' ', '\t']) == "---"
}

fn to_json(node: &Node) -> Json {
    let mut out = Vec::new();
    write_node(node, &mut out);
    String::from_utf8(out).ok().and_then(|text| Json::new(text).ok()).unwrap_or_else(Json::null)
}

fn write_node(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Plain(source) => out.extend_from_slice(plain_scalar::to_json(source).as_str().as_bytes()),
        Node::Text(text) | Node::LastBlock(text) => write::text(out, text),
        Node::List(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_node(item, out);
            }
            out.push(b']');
        }
        Node::Map(fields) => {
            out.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write::text(out, name.as_text().unwrap_or_default());
                out.push(b':');
                write_node(value, out);
            }
            out.push(b'}');
        }
    }
}

/// The path of the first field that differs, or is listed twice.
fn differing(fields: &Fields, listed: &Map<Json>) -> Option<String> {
    let mut left: OrderedMap<&str, &Json> = OrderedMap::new();
    for (name, json) in listed {
        if left.insert(name, json).is_some() {
            return Some(name.into());
        }
    }
    // First the names as they are: another key may be read as one of them.
    let named: Vec<_> =
        fields.iter().map(|(key, _)| key.as_text().and_then(|name| left.remove(name))).collect();
    for ((key, node), named) in fields.iter().zip(named) {
        let mut readings = key.as_plain().map(plain_scalar::names).into_iter().flatten();
        let json = named.or_else(|| readings.find_map(|name| left.remove(&*name)));
        if let Some(inner) = difference(node, json) {
            let name = key.as_text().unwrap_or_default();
            return Some(if inner.is_empty() { name.into() } else { format!("{name}.{inner}") });
        }
    }
    left.into_iter().find(|(_, json)| !json.is_null()).map(|(name, _)| name.into())
}

/// The path within a value at which it differs: empty for the value as a whole.
///
/// No object is decoded as a [`Value`]: with the name that serde_json gives to raw JSON, it would be the JSON in its text.
fn difference(node: &Node, listed: Option<&Json>) -> Option<String> {
    let equals = match (node, listed) {
        (node, None) => node.is_null(),
        (Node::Map(fields), Some(json)) => match read_text(json.as_str()) {
            Ok(listed) => return differing(fields, &listed),
            Err(_) => false,
        },
        (Node::List(items), Some(json)) => read_text::<Vec<Json>>(json.as_str()).is_ok_and(|values| {
            let mut pairs = items.iter().zip(&values);
            items.len() == values.len() && pairs.all(|(item, value)| difference(item, Some(value)).is_none())
        }),
        (scalar, Some(json)) => !json.is_object() && json.decode().is_ok_and(|value| equals(scalar, &value)),
    };
    (!equals).then(String::new)
}

fn equals(scalar: &Node, value: &Value) -> bool {
    match (scalar, value) {
        (Node::Plain(source), value) => plain_scalar::may_be(source, value),
        (Node::Text(text), Value::String(value)) => text == value,
        (Node::LastBlock(text), Value::String(value)) => {
            text == value || text.strip_suffix('\n') == Some(value)
        }
        _ => false,
    }
}

impl Skill {
    /// Compares the frontmatter of its `SKILL.md`, once that was read, with the entry's.
    ///
    /// # Errors
    /// If the file has no readable frontmatter, or a field differs. A host must not load the skill.
    pub fn verify_frontmatter(&self, main_file: &str) -> Result<(), FrontmatterError> {
        Frontmatter::parse(main_file)?.compare(&self.frontmatter).map_err(FrontmatterError::Mismatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<Frontmatter, FrontmatterError> {
        Frontmatter::parse(&format!("---\nname: knots\ndescription: Ties\n{yaml}\n---\nBody\n"))
    }

    fn json(yaml: &str) -> String {
        serde_json::to_string(&parse(yaml).unwrap().to_json())
            .unwrap()
            .replace("\"name\":\"knots\",\"description\":\"Ties\",", "")
    }

    #[test]
    fn fields_become_the_json_of_yaml_1_2() {
        let cases = [
            ("a: text", r#"{"a":"text"}"#),
            ("a: 'it''s'", r#"{"a":"it's"}"#),
            ("a: \"x\\ty\"", r#"{"a":"x\ty"}"#),
            ("a: |\n  one\n  two", r#"{"a":"one\ntwo\n"}"#),
            ("a: >-\n  one\n  two", r#"{"a":"one two"}"#),
            ("a: on", r#"{"a":"on"}"#),
            ("a: true", r#"{"a":true}"#),
            ("a: \"true\"", r#"{"a":"true"}"#),
            ("a: 1.10", r#"{"a":1.1}"#),
            ("a: 2.1.0", r#"{"a":"2.1.0"}"#),
            ("a: +007", r#"{"a":7}"#),
            ("a: 0x1F", r#"{"a":31}"#),
            ("a: -0", r#"{"a":0}"#),
            ("a: .inf", r#"{"a":".inf"}"#),
            ("a: 1e999", r#"{"a":"1e999"}"#),
            ("a: 12345678901234567890123", r#"{"a":12345678901234567890123}"#),
            (&format!("a: {}", "9".repeat(309)), &format!("{{\"a\":\"{}\"}}", "9".repeat(309))),
            ("a:", r#"{"a":null}"#),
            ("a: ~ # nothing", r#"{"a":null}"#),
            ("a: {b: [1, two, {c: 3}]}", r#"{"a":{"b":[1,"two",{"c":3}]}}"#),
            ("a:\n- b\n-\n  c: d", r#"{"a":["b",{"c":"d"}]}"#),
            ("a: []\nb: {}", r#"{"a":[],"b":{}}"#),
        ];
        for (yaml, expected) in cases {
            assert_eq!(json(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn frontmatter_is_what_lies_between_two_marks() {
        for file in [
            "---\nname: a\ndescription: b\n---",
            "---\r\nname: a\r\ndescription: b\r\n---\r\nBody",
            "\u{feff}---  \nname: a\ndescription: b\n--- \n---\n",
        ] {
            let frontmatter = Frontmatter::parse(file).unwrap();
            assert_eq!((frontmatter.name(), frontmatter.description()), ("a", "b"), "{file:?}");
        }
        for file in
            ["", "---", "---\nname: a\ndescription: b\n", "name: a\n", " ---\nname: a\n---\n", "---- \n---\n"]
        {
            assert_eq!(Frontmatter::parse(file), Err(FrontmatterError::Missing), "{file:?}");
        }
        let long = format!("---\nname: a\ndescription: {}\n---\n", "b".repeat(MAX_FRONTMATTER));
        assert_eq!(Frontmatter::parse(&long), Err(FrontmatterError::TooLarge));
    }

    #[test]
    fn each_skill_has_a_name_and_a_description() {
        let field = |field| Err(FrontmatterError::Field { field });
        assert_eq!(Frontmatter::parse("---\ndescription: b\n---\n"), field("name"));
        assert_eq!(Frontmatter::parse("---\nname: a\n---\n"), field("description"));
        assert_eq!(Frontmatter::parse("---\nname: a\ndescription:\n---\n"), field("description"));
        assert_eq!(Frontmatter::parse("---\nname: [a]\ndescription: b\n---\n"), field("name"));
        assert_eq!(Frontmatter::parse("---\njust text\n---\n"), Err(FrontmatterError::NoMap));
        assert_eq!(Frontmatter::parse("---\n---\n"), Err(FrontmatterError::NoMap));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let cases = [
            ("a: &x 1", 4, "an anchor"),
            ("a: &x [1]", 4, "an anchor"),
            ("a: !!str 1", 4, "a tag"),
            ("a: ! 1", 4, "a tag"),
            ("a: !own {b: 1}", 4, "a tag"),
            ("a:\n  <<: {b: 1}", 5, "a merge key"),
            ("? [a]\n: 1", 4, "a key that is not a scalar"),
            ("...\nb: 1", 5, "a second document"),
        ];
        for (yaml, line, part) in cases {
            assert_eq!(parse(yaml), Err(FrontmatterError::Unsupported { line, part }), "{yaml}");
        }
        assert!(matches!(parse("a: *x"), Err(FrontmatterError::Syntax { line: 4, .. })));
        assert!(matches!(parse("a: [1"), Err(FrontmatterError::Syntax { .. })));
        assert!(matches!(parse("a: b: c"), Err(FrontmatterError::Syntax { line: 4, .. })));
        let key = || "a".to_owned();
        assert_eq!(parse("a: 1\n'a': 2"), Err(FrontmatterError::Duplicate { line: 5, key: key() }));
        assert_eq!(parse("b: {a: 1, a: 2}"), Err(FrontmatterError::Duplicate { line: 4, key: key() }));
        assert_eq!(
            parse(&format!("a: {}{}", "[".repeat(16), "]".repeat(16))),
            Err(FrontmatterError::TooDeep)
        );
        assert!(parse(&format!("a: {}{}", "[".repeat(15), "]".repeat(15))).is_ok());
        assert_eq!(parse(&format!("a:\n{}b", "- ".repeat(40))), Err(FrontmatterError::TooDeep));
    }

    #[test]
    fn listed_object_is_not_read_as_the_json_in_its_text() {
        let object = r#"{"$serde_json::private::RawValue":"1"}"#;
        let listed = format!("{{\"a\":{object}}}");
        assert_eq!(compare(&format!("a: {object}"), &listed), Ok(()));
        for other in ["1", "[1]"] {
            let differs = FrontmatterMismatch { field: "a".into() };
            assert_eq!(
                compare(&format!("a: {other}"), &listed.replace("\"1\"", &format!("{other:?}"))),
                Err(differs)
            );
        }
    }

    fn compare(yaml: &str, listed: &str) -> Result<(), FrontmatterMismatch> {
        let mut entry: Map<Json> =
            [("name", Json::from("knots")), ("description", Json::from("Ties"))].into();
        for (name, value) in crate::schema::read::read_text::<Map<Json>>(listed).unwrap() {
            entry.push(name, value);
        }
        parse(yaml).unwrap().compare(&entry)
    }

    #[test]
    fn scalar_without_quotes_equals_every_reading_of_it() {
        for (source, values) in [
            ("on", &["\"on\"", "true"][..]),
            ("No", &["\"No\"", "false"]),
            ("true", &["true", "\"true\""]),
            ("~", &["null", "\"~\""]),
            ("1.10", &["1.1", "1.10", "\"1.10\""]),
            ("010", &["10", "8", "\"010\""]),
            ("0o10", &["8", "\"0o10\""]),
            ("0b11", &["3", "\"0b11\""]),
            ("1_000", &["1000", "\"1_000\""]),
            ("12:30", &["750", "\"12:30\""]),
            ("-0x10", &["-16", "\"-0x10\""]),
            (".inf", &["null", "\".inf\"", "\"Infinity\"", "\"inf\""]),
            ("-.Inf", &["null", "\"-.Inf\"", "\"-Infinity\""]),
            (".NaN", &["null", "\".NaN\"", "\"NaN\"", "\"nan\""]),
            ("1e999", &["null", "\"1e999\"", "\"Infinity\""]),
            ("2026-07-28", &["\"2026-07-28\"", "\"2026-07-28T00:00:00Z\"", "\"2026-07-28T00:00:00.000Z\""]),
        ] {
            for value in values {
                let listed = format!("{{\"a\":{value}}}");
                assert_eq!(compare(&format!("a: {source}"), &listed), Ok(()), "{source} {value}");
            }
        }
    }

    /// "Frontmatter Verification": a key is one of a map in JSON, whatever a version of YAML reads it as.
    #[test]
    fn key_without_quotes_equals_every_reading_of_it() {
        for (key, names) in [
            ("on", &["on", "true", "True"][..]),
            ("No", &["No", "false", "False"]),
            ("null", &["null", "None"]),
            ("~", &["~", "null"]),
            ("1.10", &["1.10", "1.1"]),
            ("010", &["010", "10", "8"]),
        ] {
            for name in names {
                assert_eq!(
                    compare(&format!("{key}: 1"), &format!("{{\"{name}\":1}}")),
                    Ok(()),
                    "{key} {name}"
                );
                let inner = format!("{{\"a\":[{{\"{name}\":1}}]}}");
                assert_eq!(compare(&format!("a: [{{{key}: 1}}]"), &inner), Ok(()), "{key} {name}");
            }
        }
        // Each key has a field of its own.
        assert_eq!(compare("on: 1\ntrue: 2", r#"{"true":2,"on":1}"#), Ok(()));
        assert_eq!(compare("on: 1\nyes: 1", r#"{"true":1}"#).unwrap_err().field, "yes");
        assert_eq!(compare("on: 1\ntrue: 1", r#"{"true":1}"#).unwrap_err().field, "on");
    }

    /// "Frontmatter Verification": the last line feed of the frontmatter is that of the mark too.
    #[test]
    fn block_that_ends_the_frontmatter_may_lack_its_last_line_feed() {
        for (yaml, listed, equal) in [
            ("a: |\n  x", r#"{"a":"x\n"}"#, true),
            ("a: |\n  x", r#"{"a":"x"}"#, true),
            ("a: >\n  x\n  y\n# end", r#"{"a":"x y"}"#, true),
            ("a:\n- b:\n  - |\n    x", r#"{"a":[{"b":["x"]}]}"#, true),
            ("a: |+\n  x\n\n", r#"{"a":"x\n"}"#, false),
            ("a: |+\n  x\n", r#"{"a":"x\n"}"#, true),
            ("a: |\n  x", r#"{"a":"x\n\n"}"#, false),
            ("a: |\n  x", r#"{"a":""}"#, false),
            ("a: |\n  x\nb: 1", r#"{"a":"x","b":1}"#, false),
            ("a:\n- |\n  x\n- []", r#"{"a":["x",[]]}"#, false),
            ("a: \"x\\n\"", r#"{"a":"x"}"#, false),
        ] {
            assert_eq!(compare(yaml, listed).is_ok(), equal, "{yaml} {listed}");
        }
    }

    #[test]
    fn each_difference_is_found_with_its_field() {
        for (yaml, listed, field) in [
            ("a: on", r#"{"a":false}"#, "a"),
            ("a: \"on\"", r#"{"a":true}"#, "a"),
            ("a: \"1\"", r#"{"a":1}"#, "a"),
            ("a: 1.1", r#"{"a":1.2}"#, "a"),
            ("a: text", r#"{"a":null}"#, "a"),
            ("a: text", "{}", "a"),
            ("a: [1, 2]", r#"{"a":[1]}"#, "a"),
            ("a: [1]", r#"{"a":1}"#, "a"),
            ("a: {b: {c: 1}}", r#"{"a":{"b":{"c":2}}}"#, "a.b.c"),
            ("a: {b: 1}", r#"{"a":{"b":1,"c":2}}"#, "a.c"),
            ("a: 1", r#"{"a":1,"allowed-tools":"Bash"}"#, "allowed-tools"),
            ("a: 1", r#"{"a":1,"a":1}"#, "a"),
            ("a: {b: 1}", r#"{"a":{"b":2,"b":1}}"#, "a.b"),
            ("a: {b: 1}", r#"{"a":{"b":2,"\u0062":1}}"#, "a.b"),
            ("a: [{b: 1}]", r#"{"a":[{"b":2,"b":1}]}"#, "a"),
            ("a: {b: 1}", r#"{"a":{"b":1,"c":null,"c":null}}"#, "a.c"),
            ("a: \"on\"", r#"{"a":true}"#, "a"),
            ("\"on\": 1", r#"{"true":1}"#, "on"),
            ("a: .inf", r#"{"a":"-Infinity"}"#, "a"),
            ("a: .inf", "{}", "a"),
            ("a: inf", r#"{"a":null}"#, "a"),
            ("a: 1", r#"{"a":1,"name":"other"}"#, "name"),
        ] {
            assert_eq!(
                compare(yaml, listed),
                Err(FrontmatterMismatch { field: field.into() }),
                "{yaml} {listed}"
            );
        }
        assert_eq!(compare("a:", "{}"), Ok(()));
        assert_eq!(compare("a: {b: [1]}", r#"{"a":{"b":[1]}}"#), Ok(()));
        assert_eq!(compare("a: {c: 1}", r#"{"a":{"c":1,"b":null}}"#), Ok(()));
    }
}
