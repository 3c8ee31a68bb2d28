//! Fuzzing of configuration files, of files of environment variables and of stored approvals.

use alloc::string::String;

use crate::Secret;
use crate::consent::SafeText;
use crate::host::config::{
    Answers, Config, ConfigFile, MAX_SERVERS, ServerEntry, Source, Template, parse_dotenv,
};
use crate::host::consent::Approvals;

/// Reads the input as a file of each kind.
pub fn host_config(data: &[u8]) {
    for path in [
        "/work/.mcp.json",
        "/work/.vscode/mcp.json",
        "/work/.gemini/settings.json",
        "/work/zed/settings.json",
        "/work/.codex/config.toml",
    ] {
        let of_project = ConfigFile::parse(Source::project(path), data);
        assert!(of_project.servers.len() <= MAX_SERVERS && of_project.diagnostics.len() <= MAX_SERVERS);
        let texts = of_project.errors.iter().map(|error| alloc::format!("{error}"));
        texts
            .chain(of_project.diagnostics.iter().map(|told| alloc::format!("{told}")))
            .for_each(|text| line(&text));
        let of_user = ConfigFile::parse(Source::user(path), data);
        for theirs in &of_project.servers {
            // Entries that are errors for a project may be the user's own.
            let own = of_user.servers.iter().find(|own| own.name() == theirs.name());
            let own = own.expect("only a project has the server");
            assert_eq!(theirs.meaning(), own.meaning(), "one text has two meanings");
            assert_ne!(theirs.id(), own.id(), "a project has the id of a user's server");
            project_server(theirs);
            resolve(own);
        }
        merge(of_user, of_project);
    }
    let text = String::from_utf8_lossy(data);
    let _ = parse_dotenv(&text);
    if let Ok(template) = Template::parse(&text) {
        assert_eq!(template.text(), text, "another text is read");
    }
    if let Ok(approvals) = Approvals::from_json(data) {
        let stored = approvals.to_json();
        assert_eq!(
            Approvals::from_json(stored.as_bytes()).as_ref(),
            Ok(&approvals),
            "other approvals are read again"
        );
    }
}

/// Checks that the text is one line that a terminal shows as it is.
fn line(text: &str) {
    assert_eq!(alloc::format!("{}", SafeText::line(text)), text, "a text of the file reaches the terminal");
}

/// Checks that a server starts only with its approval.
fn project_server(server: &ServerEntry) {
    let mut approvals = Approvals::new();
    let request = server.permit(&approvals).expect_err("it has no approval");
    alloc::format!("{request}").split('\n').for_each(line);
    approvals.insert(request.approve());
    server.permit(&approvals).expect("it is approved");
}

/// Answers a server's lookups until it has no more, and resolves it.
fn resolve(server: &ServerEntry) {
    let approvals = Approvals::new();
    let permit = server.permit(&approvals).expect("a user's server needs no approval");
    let mut answers = Answers::new();
    for _ in 0..3 {
        for lookup in permit.unanswered(&answers) {
            answers.insert(lookup, Some(Secret::new("https://value.example")));
        }
    }
    assert!(permit.unanswered(&answers).is_empty(), "the lookups have no end");
    if let Err(error) = permit.resolve(&answers) {
        line(&alloc::format!("{error}"));
    }
}

/// Checks that a project's copy of the user's file adds nothing.
fn merge(of_user: ConfigFile, of_project: ConfigFile) {
    let alone = Config::merge([of_user.clone()]);
    let both = Config::merge([of_project, of_user]);
    let changes = alone.changes_to(&both);
    assert!(changes.is_empty(), "a project has changed the user's servers");
    assert_eq!(changes.unchanged.len(), alone.servers().len());
}
