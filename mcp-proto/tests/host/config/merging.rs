use mcp_proto::host::config::{Config, ConfigFile, OmissionReason, Scope, ServerId, ServerSpec};

use super::{names, project, stdio, user};

const PROJECT: &str = "/work/app/.mcp.json";

fn servers(entries: &str) -> String {
    format!(r#"{{ "mcpServers": {{ {entries} }} }}"#)
}

#[test]
fn project_never_takes_the_name_of_a_users_server() {
    let user_file = servers(
        r#""git": { "command": "git" }, "off": { "command": "off", "enabled": false },
        "wrong": { "command": 1 }, "filtered": { "command": "filtered" }"#,
    );
    let project_file = servers(
        r#""git": { "command": "evil" }, "GIT": { "command": "evil" }, "Off": { "command": "evil" },
        "wrong": { "command": "evil" }, "filtered": { "command": "evil" }, "own": { "command": "own" }"#,
    );
    // Whatever the order of the files.
    let files = [project(PROJECT, &project_file), user("/u.json", &user_file)];
    let config = Config::merge_filtered(files, |server| {
        server.source().scope == Scope::Project || server.name() != "filtered"
    });
    assert_eq!(names(&config), ["git", "off", "own"]);
    assert_eq!(stdio(&config.servers()[0]).command.text(), "git");
    let omitted: Vec<_> = config.omitted().iter().map(|left| (left.server.name(), left.reason)).collect();
    assert_eq!(
        omitted,
        [
            ("filtered", OmissionReason::Filtered),
            ("git", OmissionReason::NameTaken),
            ("GIT", OmissionReason::NameTaken),
            ("Off", OmissionReason::NameTaken),
            ("wrong", OmissionReason::NameTaken),
            ("filtered", OmissionReason::NameTaken),
        ]
    );
    assert_eq!(config.errors().len(), 1);
    assert_eq!(
        config.omitted()[1].to_string(),
        r#"/work/app/.mcp.json: server "git": "git" in /u.json has the name: rename one of them"#
    );
}

#[test]
fn project_never_takes_a_name_that_looks_like_a_users_server() {
    let mine = servers(r#""github": { "command": "git" }, "my files": { "command": "files" }"#);
    let theirs = servers(
        r#""gіthub": { "command": "a" }, "GitHuЬ": { "command": "b" }, "git\u200bhub": { "command": "c" },
        "ｇithub": { "command": "d" }, "g1thub ": { "command": "e" }, "my_files": { "command": "f" },
        "ℊithub": { "command": "h" }, "my ﬁles": { "command": "i" }, "my fileſ": { "command": "j" },
        "gitlab": { "command": "g" }"#,
    );
    let config = Config::merge([user("/u.json", &mine), project(PROJECT, &theirs)]);
    assert_eq!(names(&config), ["github", "my files", "gitlab"]);
    assert_eq!(config.omitted().len(), 9);
    assert!(config.omitted().iter().all(|left| left.reason == OmissionReason::SimilarName));
    let said = config.omitted()[0].to_string();
    assert!(
        said.ends_with(
            r#"your server "github" in /u.json has a name that looks like it: rename one of them"#
        )
    );
    // The user may have such names, and projects among themselves.
    let both = Config::merge([user("/u.json", &theirs), user("/v.json", &mine)]);
    assert_eq!(both.servers().len(), 12);
}

#[test]
fn damaged_file_of_a_user_reserves_the_names_in_it() {
    let theirs =
        servers(r#""git": { "command": "evil" }, "GIT": { "command": "evil" }, "own": { "command": "own" }"#);
    for (path, damaged) in [
        ("/u.json", r#"{ "mcpServers": { "git": { "command": "git" } "#),
        ("/u.json", r#"{ "mcpServers": { "git: { "command": "git" } } }"#),
        ("/u.json", r#"{ "mcpServers": [{ "git": { "command": "git" } }] }"#),
        ("/.codex/config.toml", "[mcp_servers.git]\ncommand = git"),
    ] {
        let config = Config::merge([project(PROJECT, &theirs), user(path, damaged)]);
        assert_eq!(names(&config), ["own"], "{damaged}");
        assert_eq!(config.errors().len(), 1);
    }
    // A project's file reserves nothing.
    let config = Config::merge([
        project("/work/other/.mcp.json", r#"{ "mcpServers": { "git": "#),
        project(PROJECT, &servers(r#""git": { "command": "git" }"#)),
    ]);
    assert_eq!(names(&config), ["git"]);
}

#[test]
fn same_server_in_two_files_is_recognised_whatever_its_name_and_spelling() {
    let first = servers(
        r#""search": { "url": "HTTPS://Search.Example:443", "headers": { "X-A": "1", "authorization": "Bearer ${TOKEN}" } },
           "db": { "command": "db", "args": [], "env": { "A": "${X}", "B": "2" } }"#,
    );
    let second = servers(
        r#""suche": { "type": "http", "url": "https://search.example/", "timeout": 5,
                      "headers": { "Authorization": "Bearer ${env:TOKEN}", "x-a": "1" } },
           "data": { "command": "db", "env": { "B": "2", "A": "${env:X}" } },
           "other": { "command": "db", "env": { "B": "2", "A": "${env:Y}" } }"#,
    );
    let codex = r#"
        [mcp_servers.codex]
        url = "https://search.example"
        http_headers = { X-A = "1" }
        bearer_token_env_var = "TOKEN"
    "#;
    let files = [user("/a.json", &first), user("/.codex/config.toml", codex), project(PROJECT, &second)];
    let config = Config::merge(files);
    assert_eq!(names(&config), ["search", "db", "other"]);
    let search = config.find("search").unwrap().id();
    let db = config.find("db").unwrap().id();
    let reasons: Vec<_> = config.omitted().iter().map(|left| (left.server.name(), left.reason)).collect();
    assert_eq!(
        reasons,
        [
            ("codex", OmissionReason::SameServer(search)),
            ("suche", OmissionReason::SameServer(search)),
            ("data", OmissionReason::SameServer(db)),
        ]
    );
    let said = config.omitted()[0].to_string();
    assert!(
        said.ends_with(r#"server "codex": the same server is configured as "search" in /a.json"#),
        "{said}"
    );
}

/// F86
#[test]
fn disabled_server_does_not_hide_an_enabled_one() {
    let text = servers(
        r#""off": { "command": "x", "disabled": true }, "on": { "command": "x" }, "off2": { "command": "x", "disabled": true }"#,
    );
    assert_eq!(names(&Config::merge([user("/a.json", &text)])), ["off", "on", "off2"]);
}

#[test]
fn first_file_of_the_user_wins() {
    let config = Config::merge([
        user("/a.json", &servers(r#""x": { "command": "first" }"#)),
        user("/b.json", &servers(r#""x": { "command": "second" }, "X": { "command": "other" }"#)),
    ]);
    assert_eq!(names(&config), ["x", "X"]);
    assert_eq!(stdio(config.find("x").unwrap()).command.text(), "first");
    assert_eq!(config.find("x").unwrap().source().path, "/a.json");
}

#[test]
fn wrong_entry_does_not_hide_the_users_other_one() {
    let config = Config::merge([
        user("/a.json", &servers(r#""x": {}"#)),
        user("/b.json", &servers(r#""x": { "command": "x" }"#)),
    ]);
    assert_eq!(names(&config), ["x"]);
}

#[test]
fn no_project_can_have_the_id_of_a_users_server() {
    let config = Config::merge([
        user("/u.json", &servers(r#""a": { "command": "a" }"#)),
        project(PROJECT, &servers(r#""b": { "command": "b" }"#)),
        project("/work/other/.mcp.json", &servers(r#""c": { "command": "c" }"#)),
    ]);
    assert_eq!(config.find("a").unwrap().id(), ServerId::user("a"));
    assert_eq!(config.find("b").unwrap().id(), ServerId::project(PROJECT, "b"));
    assert_ne!(ServerId::project("a", "bc"), ServerId::project("ab", "c"));
    assert_ne!(ServerId::project("", "a"), ServerId::user("a"));
    assert_eq!(ServerId::user("a").to_string().len(), 32);
}

#[test]
fn servers_of_the_application_are_the_users() {
    let own = ConfigFile::from_servers([("own", ServerSpec::stdio("own", ["--fast"]))]);
    let config = Config::merge([project(PROJECT, &servers(r#""own": { "command": "evil" }"#)), own]);
    assert_eq!(names(&config), ["own"]);
    assert_eq!(config.get(ServerId::user("own")).unwrap().source().scope, Scope::User);
}
