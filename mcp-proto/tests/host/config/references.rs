use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, Lookup, PredefinedVariable, ResolveError, ResolveErrorKind, ResolvedHttp, ResolvedSpec,
    ResolvedStdio, ServerEntry, Template,
};
use mcp_proto::host::consent::Approvals;
use proptest::prelude::*;

use super::{entry, user};

fn variable(name: &str) -> Lookup {
    Lookup::Variable(name.into())
}

/// Answers from an environment; all other values are absent.
fn answers(entry: &ServerEntry, environment: &[(&str, &str)]) -> Answers {
    let approvals = Approvals::new();
    let permit = entry.permit(&approvals).unwrap();
    let mut answers = Answers::new();
    loop {
        let lookups = permit.unanswered(&answers);
        if lookups.is_empty() {
            return answers;
        }
        for lookup in lookups {
            let name = match &lookup {
                Lookup::Variable(name) | Lookup::Input(name) | Lookup::EnvFile(name) => name.as_str(),
                Lookup::Predefined(variable) => variable.as_str(),
                other => panic!("{other:?}"),
            };
            let value = environment.iter().find(|(known, _)| *known == name);
            answers.insert(lookup.clone(), value.map(|(_, value)| Secret::new(*value)));
        }
    }
}

fn resolve(entry: &ServerEntry, environment: &[(&str, &str)]) -> Result<ResolvedSpec, ResolveError> {
    entry.permit(&Approvals::new()).unwrap().resolve(&answers(entry, environment))
}

fn program(entry: &ServerEntry, environment: &[(&str, &str)]) -> ResolvedStdio {
    match resolve(entry, environment).unwrap() {
        ResolvedSpec::Stdio(program) => program,
        ResolvedSpec::Http(_) => panic!("this is no program"),
    }
}

fn connection(entry: &ServerEntry, environment: &[(&str, &str)]) -> ResolvedHttp {
    match resolve(entry, environment).unwrap() {
        ResolvedSpec::Http(connection) => connection,
        ResolvedSpec::Stdio(_) => panic!("this is no URL"),
    }
}

fn args(program: &ResolvedStdio) -> Vec<&str> {
    program.args.iter().map(Secret::expose).collect()
}

/// F85
#[test]
fn every_form_of_reference_is_replaced() {
    let entry = entry(
        r#"{
            "command": "${userHome}${/}bin/run",
            "args": ["${A}", "${A:-x}-${B:-y}", "${env:A}", "${env:B:-z}", "$A $ ${ ${} ${1} $(id) `id`"],
            "cwd": "${workspaceFolder}"
        }"#,
    );
    let program =
        program(&entry, &[("A", "1"), ("userHome", "/h"), ("pathSeparator", "/"), ("workspaceFolder", "/w")]);
    assert_eq!((program.command.as_str(), program.cwd.as_deref()), ("/h/bin/run", Some("/w")));
    assert_eq!(args(&program), ["1", "1-y", "1", "z", "$A $ ${ ${} ${1} $(id) `id`"]);
}

#[test]
fn default_is_used_for_absent_and_empty_variables() {
    let entry =
        entry(r#"{ "command": "x", "args": ["${A:-d}", "${B:-d}", "${A}"], "env": { "C": "${D:-}" } }"#);
    let program = program(&entry, &[("A", "")]);
    assert_eq!(args(&program), ["d", "d", ""]);
    assert_eq!(program.env["C"].expose(), "");
}

#[test]
fn missing_variable_is_an_error_with_entry_member_and_name() {
    let entry = entry(r#"{ "url": "https://a.example", "headers": { "X-Key": "k ${KEY}" } }"#);
    let error = resolve(&entry, &[]).unwrap_err();
    assert_eq!(error.kind, ResolveErrorKind::Missing(variable("KEY")));
    assert_eq!(
        error.to_string(),
        r#"server "one": headers.x-key: the environment variable KEY has no value: set it"#
    );
}

#[test]
fn unanswered_lookup_is_an_error() {
    let entry = entry(r#"{ "command": "${RUN}" }"#);
    let approvals = Approvals::new();
    let permit = entry.permit(&approvals).unwrap();
    assert_eq!(permit.unanswered(&Answers::new()), [variable("RUN")]);
    let error = permit.resolve(&Answers::new()).unwrap_err();
    assert_eq!((error.member.as_str(), error.kind), ("command", ResolveErrorKind::Missing(variable("RUN"))));
}

/// Work that grew with the square of the text would take hours.
#[test]
fn long_text_of_broken_references_is_literal() {
    for piece in ["${", "${a", "$", "${1}", "${:-"] {
        let text = piece.repeat(200_000);
        for text in [text.clone(), text + "}"] {
            match Template::parse(&text) {
                Ok(template) => assert_eq!(template.text().len(), text.len()),
                Err(reference) => assert!(reference.len() < 20),
            }
        }
    }
}

#[test]
fn value_is_not_read_for_references_again() {
    let entry = entry(r#"{ "command": "x", "args": ["${A}"] }"#);
    assert_eq!(args(&program(&entry, &[("A", "${B} $(id)"), ("B", "no")])), ["${B} $(id)"]);
}

#[test]
fn argument_keeps_a_reference_to_a_variable_that_only_the_program_has() {
    let entry = entry(
        r#"{ "command": "npx", "args": ["mcp-remote", "--header", "X:${AUTH}", "${OTHER:-o}"], "env": { "AUTH": "Bearer x" } }"#,
    );
    assert_eq!(args(&program(&entry, &[])), ["mcp-remote", "--header", "X:${AUTH}", "o"]);
    assert_eq!(args(&program(&entry, &[("AUTH", "y")]))[2], "X:y");
}

#[test]
fn variables_of_the_entry_override_forwarded_ones_and_those_of_the_file() {
    let file = user(
        "/c.toml",
        r#"
            [mcp_servers.one]
            command = "x"
            env = { A = "entry" }
            env_vars = ["A", "B", "C"]
            envFile = ".env"
        "#,
    );
    let environment = [("A", "forwarded"), ("B", "forwarded"), (".env", "A=file\nB=file\nD=file\n")];
    let program = program(&file.servers[0], &environment);
    let env: Vec<_> = program.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(env, [("A", "entry"), ("B", "forwarded"), ("D", "file")]);
}

#[test]
fn file_of_variables_is_asked_for_once_its_path_is_known() {
    let entry = entry(r#"{ "command": "x", "envFile": "${workspaceFolder}/.env" }"#);
    let approvals = Approvals::new();
    let permit = entry.permit(&approvals).unwrap();
    // The others tell whether the file may be a project's.
    let folders = [
        PredefinedVariable::WorkspaceFolder,
        PredefinedVariable::UserHome,
        PredefinedVariable::WorkingDirectory,
    ];
    let folders = folders.map(Lookup::Predefined);
    let mut answers = Answers::new();
    assert_eq!(permit.unanswered(&answers), folders);
    for folder in folders {
        answers.insert(folder, Some(Secret::new("/w")));
    }
    assert_eq!(permit.unanswered(&answers), [Lookup::EnvFile("/w/.env".into())]);
    answers.insert(Lookup::EnvFile("/w/.env".into()), None);
    assert_eq!(permit.unanswered(&answers), []);
    assert_eq!(permit.resolve(&answers).unwrap_err().member, "envFile");
    answers.insert(Lookup::EnvFile("/w/.env".into()), Some(Secret::new("A=1\nnonsense")));
    let error = permit.resolve(&answers).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"server "one": envFile: line 2 of the file of environment variables is not of the form NAME=value"#
    );
}

#[test]
fn input_has_the_default_of_its_declaration() {
    let file = user(
        "/home/ann/.config/Code/User/mcp.json",
        r#"{ "inputs": [{ "id": "zone", "type": "promptString", "default": "eu" }],
             "servers": { "a": { "url": "https://${input:zone}.example" } } }"#,
    );
    assert_eq!(connection(&file.servers[0], &[]).url.expose(), "https://eu.example");
    assert_eq!(connection(&file.servers[0], &[("zone", "us")]).url.expose(), "https://us.example");
}

#[test]
fn value_that_does_not_fit_is_an_error_without_the_value() {
    let url = entry(r#"{ "url": "${BASE}/mcp" }"#);
    let header = entry(r#"{ "url": "https://a.example", "headers": { "X-Key": "${KEY}" } }"#);
    let program = entry(r#"{ "command": "${RUN}" }"#);
    for (entry, environment, kind) in [
        (&url, ("BASE", "file://s3cret"), ResolveErrorKind::Url),
        (&url, ("BASE", "https://s3cret evil"), ResolveErrorKind::Url),
        (&header, ("KEY", "s3cret\r\nX-Evil: 1"), ResolveErrorKind::HeaderValue),
        (&program, ("RUN", "s3cret\0"), ResolveErrorKind::Value),
        (&program, ("RUN", ""), ResolveErrorKind::Value),
    ] {
        let error = resolve(entry, &[environment]).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}

#[test]
fn debug_output_has_no_literal_and_no_resolved_secret() {
    let secret = "s3cret";
    let json = r#"{
        "command": "x-s3cret", "args": ["--key=s3cret", "${KEY}"], "env": { "A": "s3cret" }, "cwd": "/s3cret",
        "envFile": "/${KEY}/s3cret"
    }"#;
    let program = entry(json);
    let url = entry(
        r#"{ "url": "https://s3cret.example/${KEY}", "headers": { "X": "s3cret" }, "oauth": { "client_secret": "s3cret" } }"#,
    );
    for entry in [&program, &url] {
        let file = format!("/{secret}/{secret}");
        let environment = [("KEY", secret), (file.as_str(), "B=s3cret")];
        let resolved = resolve(entry, &environment).unwrap();
        let shown = format!("{resolved:?} {entry:?} {:?}", answers(entry, &environment));
        assert!(!shown.contains(secret), "{shown}");
    }
    let approvals = Approvals::new();
    let lookups = program.permit(&approvals).unwrap().unanswered(&answers(&url, &[("KEY", secret)]));
    assert!(!format!("{lookups:?} {}", lookups[0]).contains(secret));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// F85
    #[test]
    fn template_keeps_its_text(text in "(\\$|\\{|\\}|:-|:|[A-C]|env:|input:|é| ){0,20}") {
        if let Ok(template) = Template::parse(&text) {
            prop_assert_eq!(template.text(), text);
        }
    }

    #[test]
    fn literal_keeps_its_text_and_needs_nothing(text in ".*") {
        let template = Template::literal(text.clone());
        prop_assert_eq!(template.text(), text);
        prop_assert!(template.is_literal());
    }
}
