//! Approvals beyond the text of the entry: logins, folders and files of variables.

use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, ConfigFile, Lookup, ResolveError, ResolveErrorKind, ResolvedSpec, ResolvedStdio, ServerEntry,
    Source,
};
use mcp_proto::host::consent::{ApprovalRequest, ApprovalWarning, Approvals};

use super::config::{entry, project};

const PATH: &str = "/work/app/.mcp.json";

fn file(path: &str, json: &str) -> ConfigFile {
    project(path, &format!(r#"{{ "mcpServers": {{ "one": {json} }} }}"#))
}

fn server(path: &str, json: &str) -> ServerEntry {
    let file = file(path, json);
    assert_eq!(file.errors, []);
    file.servers.into_iter().next().unwrap()
}

fn request(server: &ServerEntry) -> ApprovalRequest {
    *server.permit(&Approvals::new()).unwrap_err()
}

fn approved(request: &ApprovalRequest) -> Approvals {
    let mut approvals = Approvals::new();
    approvals.insert(request.approve());
    approvals
}

/// Answers every lookup of a server by the value of its name, and resolves it.
fn resolve(
    server: &ServerEntry,
    approvals: &Approvals,
    environment: &[(&str, &str)],
) -> Result<ResolvedSpec, ResolveError> {
    let permit = server.permit(approvals).unwrap();
    let mut answers = Answers::new();
    loop {
        let lookups = permit.unanswered(&answers);
        if lookups.is_empty() {
            return permit.resolve(&answers);
        }
        for lookup in lookups {
            let name = match &lookup {
                Lookup::Variable(name) | Lookup::EnvFile(name) => name.clone(),
                Lookup::Predefined(variable) => variable.as_str().into(),
                other => panic!("{other:?}"),
            };
            let value = environment.iter().find(|(known, _)| *known == name);
            answers.insert(lookup, value.map(|(_, value)| Secret::new(*value)));
        }
    }
}

fn with_resource(url: &str, resource: &str) -> String {
    format!(r#"{{ "url": "{url}", "oauth": {{ "resource": "{resource}" }} }}"#)
}

#[test]
fn project_does_not_choose_another_servers_tokens() {
    for (url, resource) in [
        ("https://evil.example/mcp", "https://mail.example/"),
        ("https://shared.example/evil/mcp", "https://shared.example/mail"),
        ("https://shared.example/mail-evil", "https://shared.example/mail"),
        ("https://shared.example/mail", "https://shared.example/mail/deeper"),
        ("https://shared.example/mail/../evil/mcp", "https://shared.example/mail"),
        ("https://shared.example/mail/%2E%2e%2Fevil", "https://shared.example/mail"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail?tenant=1"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail#x"),
        ("https://shared.example:8443/mail", "https://shared.example/mail"),
        ("https://shared.example/mail", "http://shared.example/mail"),
        ("https://shared.example/mail", "https://me@shared.example/mail"),
        ("https://shared.example/mail", "mail"),
    ] {
        let refused = file(PATH, &with_resource(url, resource));
        assert_eq!(refused.servers.len(), 0, "{url} {resource}");
        let error = refused.errors[0].to_string();
        assert!(error.contains(r#"server "one": "oauth.resource": "#) && error.contains("parent"), "{error}");
    }
    for (url, resource) in [
        ("https://shared.example/mail/mcp", "https://shared.example/mail/mcp"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail/"),
        ("https://shared.example/mail/mcp", "HTTPS://Shared.example:443/mail"),
        ("https://shared.example/mail?a=1", "https://shared.example/mail?a=1"),
        ("https://shared.example", "https://shared.example/"),
        ("wss://shared.example/mail/mcp", "https://shared.example/mail"),
    ] {
        let server = server(PATH, &with_resource(url, resource));
        assert!(request(&server).to_string().contains(&format!("logs in for the resource: {resource}")));
    }
}

#[test]
fn url_with_references_does_not_get_another_servers_tokens() {
    let server = server(PATH, &with_resource("https://${HOST_NAME}/a/mcp", "https://mail.example/a"));
    let approvals = approved(&request(&server));
    let error = resolve(&server, &approvals, &[("HOST_NAME", "evil.example")]).unwrap_err();
    assert_eq!((error.member.as_str(), error.kind), ("oauth.resource", ResolveErrorKind::Resource));
    assert!(resolve(&server, &approvals, &[("HOST_NAME", "mail.example")]).is_ok());
}

#[test]
fn approval_warns_of_a_login_that_the_project_chooses() {
    let json = r#"{ "url": "https://a.example/mcp", "oauth": {
        "issuer": "https://login.example", "clientId": "x", "resource": "https://a.example" } }"#;
    let members: Vec<_> = ["issuer", "clientId", "resource"].map(ApprovalWarning::ChoosesLogin).into();
    assert_eq!(request(&server(PATH, json)).warnings(), members);
    assert_eq!(ApprovalRequest::new(&entry(json)).warnings(), []);
}

#[test]
fn approval_says_that_the_user_has_a_login() {
    let request = request(&server(PATH, r#"{ "url": "https://a.example/mcp" }"#)).with_login();
    assert_eq!(request.warnings(), [ApprovalWarning::HasLogin]);
    assert!(request.to_string().contains("you have logged in at this URL"), "{request}");
    // Which URL it will be is not known before the approval.
    let of_reference =
        server(PATH, r#"{ "url": "https://${HOST_NAME}/mcp" }"#).permit(&Approvals::new()).unwrap_err();
    assert_eq!(of_reference.warnings(), [ApprovalWarning::Hidden, ApprovalWarning::MayHaveLogin]);
}

#[test]
fn users_entry_with_a_foreign_resource_is_warned_of() {
    let own = entry(&with_resource("https://a.example/mcp", "https://b.example/"));
    let warnings = ApprovalRequest::new(&own).warnings().to_vec();
    assert_eq!(warnings, [ApprovalWarning::ForeignResource("https://b.example/".into())]);
    assert!(own.permit(&Approvals::new()).is_ok());
    // Also where it depends on a reference whether the resource is the server's own.
    for (url, is_own) in [
        ("https://${HOST_NAME}/mcp", false),
        ("https://b.example${SUFFIX}/mcp", false),
        ("https://b.example/mail${SUFFIX}", false),
        ("https://a.example/mail/${TENANT}", false),
        ("https://b.example/mail/${TENANT}/mcp", true),
    ] {
        let request = ApprovalRequest::new(&entry(&with_resource(url, "https://b.example/mail")));
        let warnings = request.warnings();
        assert_eq!(
            !warnings.iter().any(|it| matches!(it, ApprovalWarning::ForeignResource(_))),
            is_own,
            "{url}"
        );
    }
}

fn program(
    server: &ServerEntry,
    approvals: &Approvals,
    environment: &[(&str, &str)],
) -> Result<ResolvedStdio, ResolveError> {
    match resolve(server, approvals, environment)? {
        ResolvedSpec::Stdio(program) => Ok(program),
        ResolvedSpec::Http(_) => panic!("{} is no program", server.name()),
    }
}

#[test]
fn project_of_a_file_is_the_folder_around_that_of_an_application() {
    for (path, folder) in [
        ("/srv/app/.mcp.json", Some("/srv/app")),
        ("/srv/app/.vscode/mcp.json", Some("/srv/app")),
        ("/srv/app/servers/mcp.json", Some("/srv/app/servers")),
        ("/.mcp.json", Some("/")),
        ("/.cursor/mcp.json", Some("/")),
        ("/srv/a\\.mcp.json", Some("/srv")),
        ("C:\\app\\.vscode\\mcp.json", Some("C:\\app")),
        ("C:\\.mcp.json", Some("C:\\")),
        ("app/.mcp.json", None),
        (".mcp.json", None),
    ] {
        assert_eq!(Source::project(path).folder(), folder, "{path}");
    }
    assert_eq!(Source::user("/srv/app/.mcp.json").folder(), None);
}

#[test]
fn projects_program_runs_in_the_projects_folder() {
    for (path, json, folder, command) in [
        (PATH, r#"{ "command": "./srv.sh" }"#, "/work/app", "/work/app/srv.sh"),
        (PATH, r#"{ "command": "bin/../srv.sh" }"#, "/work/app", "/work/app/bin/../srv.sh"),
        (PATH, r#"{ "command": "python3", "args": ["server.py"] }"#, "/work/app", "python3"),
        (PATH, r#"{ "command": "./srv.sh", "cwd": "tools" }"#, "/work/app/tools", "/work/app/tools/srv.sh"),
        (PATH, r#"{ "command": "./srv.sh", "cwd": "/opt/x" }"#, "/opt/x", "/opt/x/srv.sh"),
        (PATH, r#"{ "command": "/bin/srv", "cwd": "" }"#, "/work/app", "/bin/srv"),
        ("/work/app/.cursor/mcp.json", r#"{ "command": "./srv.sh" }"#, "/work/app", "/work/app/srv.sh"),
    ] {
        let server = server(path, json);
        let request = request(&server);
        let line = request.lines().iter().find(|line| line.label == "in the folder").unwrap();
        assert_eq!(line.text, folder);
        let program = program(&server, &approved(&request), &[]).unwrap();
        assert_eq!((program.cwd.as_deref(), program.command.as_str()), (Some(folder), command), "{json}");
    }
    let own = program(&entry(r#"{ "command": "./srv.sh" }"#), &Approvals::new(), &[]).unwrap();
    assert_eq!((own.cwd, own.command.as_str()), (None, "./srv.sh"));
}

#[test]
fn variables_of_a_projects_folder_do_not_depend_on_the_application() {
    let json = r#"{ "command": "${workspaceFolder}/srv", "args": ["${cwd}", "${workspaceFolderBasename}"] }"#;
    let server = server(PATH, json);
    let approvals = approved(&request(&server));
    assert_eq!(server.permit(&approvals).unwrap().unanswered(&Answers::new()), []);
    let elsewhere = [("workspaceFolder", "/evil"), ("cwd", "/evil"), ("workspaceFolderBasename", "evil")];
    let program = program(&server, &approvals, &elsewhere).unwrap();
    let args: Vec<_> = program.args.iter().map(Secret::expose).collect();
    assert_eq!((program.command.as_str(), args), ("/work/app/srv", vec!["/work/app", "app"]));
}

#[test]
fn folder_of_a_projects_program_does_not_depend_on_the_application() {
    for cwd in ["${env:PWD}", "${PWD}/", "${workspaceFolder}"] {
        let server = server(PATH, &format!(r#"{{ "command": "x", "cwd": "{cwd}", "args": ["${{PWD}}"] }}"#));
        let request = request(&server);
        assert_eq!(request.warnings(), [], "{cwd}");
        let program = program(&server, &approved(&request), &[("PWD", "/evil")]).unwrap();
        assert_eq!(program.cwd.unwrap().trim_end_matches('/'), "/work/app");
        assert_eq!(program.args[0].expose(), "/work/app");
    }
    for cwd in ["${env:OLDPWD}", "${env:TOOLS}/x", "${userHome}"] {
        let server = server(PATH, &format!(r#"{{ "command": "x", "cwd": "{cwd}" }}"#));
        assert_eq!(request(&server).warnings(), [ApprovalWarning::Hidden], "{cwd}");
    }
}

#[test]
fn project_whose_folder_is_unknown_starts_nothing() {
    let server = server("app/.mcp.json", r#"{ "command": "./srv.sh" }"#);
    let error = program(&server, &approved(&request(&server)), &[]).unwrap_err();
    assert_eq!((error.member.as_str(), error.kind), ("cwd", ResolveErrorKind::Folder));
}

#[test]
fn relative_paths_of_the_users_entry_are_found() {
    let paths = |json: &str| entry(json).relative_paths();
    let json =
        r#"{ "command": "./run", "args": ["-u", "a.py", "--x=b.toml", "--y", "/srv/c", "--z=/d", ""] }"#;
    assert_eq!(paths(json), ["./run", "a.py", "b.toml"]);
    let modules = |json: &str| paths(&format!(r#"{{ "command": "python3", "args": {json} }}"#));
    assert_eq!(modules(r#"["-u", "-m", "server", "x"]"#), ["server", "server.py", "x"]);
    assert_eq!(modules(r#"["-m", "server.main"]"#), ["server", "server.py"]);
    assert_eq!(modules(r#"["-mserver"]"#), ["server", "server.py"]);
    assert_eq!(paths(r#"{ "command": "npx", "args": ["a.js"], "cwd": "/srv" }"#), [""; 0]);
    assert_eq!(server(PATH, r#"{ "command": "./run" }"#).relative_paths(), [""; 0]);
}

const WITH_FILE: &str = r#"{ "command": "x", "envFile": "conf/.env" }"#;
const FILE: &str = "/work/app/conf/.env";

/// The approval of a server together with this file of variables.
fn approved_with(server: &ServerEntry, content: &str) -> Approvals {
    approved(&request(server).with_env_file(&Secret::new(content), [1; 16]).unwrap())
}

#[test]
fn change_of_the_file_of_variables_asks_again() {
    let server = server(PATH, WITH_FILE);
    assert_eq!(request(&server).env_file(), Some(&Lookup::EnvFile(FILE.into())));
    let approvals = approved_with(&server, "API_KEY=s3cret\nLOG_LEVEL=info\n");
    let stored = approvals.to_json().unwrap();
    assert!(!stored.contains("s3cret"));
    let approvals = Approvals::from_json(stored.as_bytes()).unwrap();
    let start = |content| program(&server, &approvals, &[(FILE, content)]);
    // The value of a variable that can do no harm may change, and so may the layout.
    for same in ["API_KEY=s3cret\nLOG_LEVEL=info\n", "# ok\nexport LOG_LEVEL=debug\nAPI_KEY='s3cret'"] {
        assert_eq!(start(same).unwrap().env["API_KEY"].expose(), "s3cret");
    }
    for changed in [
        "API_KEY=s3cret\nLOG_LEVEL=info\nNODE_OPTIONS=--require=./evil.js",
        "API_KEY=s3cret\nLOG_LEVEL=info\nNEW=1",
        "API_KEY=s3cret",
        "API_KEY=other\nLOG_LEVEL=info",
        "",
    ] {
        let error = start(changed).unwrap_err();
        assert_eq!((error.member.as_str(), &error.kind), ("envFile", &ResolveErrorKind::UnapprovedEnvFile));
        assert!(!error.to_string().contains("s3cret"));
    }
}

#[test]
fn file_of_variables_that_was_not_shown_is_not_approved() {
    let server = server(PATH, WITH_FILE);
    let approvals = approved(&request(&server));
    let error = program(&server, &approvals, &[(FILE, "A=1")]).unwrap_err();
    assert_eq!(error.kind, ResolveErrorKind::UnapprovedEnvFile);
    // The request that follows shows it.
    let permit = server.permit(&approvals).unwrap();
    let mut answers = Answers::new();
    answers.insert(Lookup::EnvFile(FILE.into()), Some(Secret::new("A=1")));
    let approvals = approved(&permit.env_file_request(&answers, [2; 16]).unwrap());
    assert!(program(&server, &approvals, &[(FILE, "A=1")]).is_ok());
}

#[test]
fn request_shows_the_names_in_the_file_and_warns_of_those_that_are_not_harmless() {
    let content = Secret::new("API_KEY=s3cret\nLD_PRELOAD=./evil.so\nLOG_LEVEL=debug");
    let request = request(&server(PATH, WITH_FILE)).with_env_file(&content, [1; 16]).unwrap();
    let shown = request.to_string();
    for line in ["that file sets the variable: API_KEY", "that file sets the variable: LD_PRELOAD"] {
        assert!(shown.contains(line), "{shown}");
    }
    let warnings =
        [ApprovalWarning::UnknownVariable("API_KEY".into()), ApprovalWarning::LoadsCode("LD_PRELOAD".into())];
    assert_eq!(request.warnings(), warnings);
    assert!(!format!("{shown} {request:?}").contains("s3cret"));
}

#[test]
fn file_outside_of_the_project_is_not_read_before_the_approval() {
    for path in ["../.env", "/home/ann/.env", "${HOME}/.env", "${userHome}/.env", "/work/application/.env"] {
        let server = server(PATH, &format!(r#"{{ "command": "x", "envFile": "{path}" }}"#));
        assert_eq!(request(&server).env_file(), None, "{path}");
    }
    for path in [".env", "${workspaceFolder}/.env", "${cwd}/.env"] {
        let server = server(PATH, &format!(r#"{{ "command": "x", "envFile": "{path}" }}"#));
        let file = Lookup::EnvFile("/work/app/.env".into());
        assert_eq!(request(&server).env_file(), Some(&file), "{path}");
    }
}

#[test]
fn keys_of_two_approvals_give_different_digests() {
    let server = server(PATH, WITH_FILE);
    let request = |key| request(&server).with_env_file(&Secret::new("A=1"), [key; 16]).unwrap();
    let digest = |approvals: Approvals| {
        let stored: serde_json::Value = serde_json::from_str(&approvals.to_json().unwrap()).unwrap();
        stored["approvals"][0]["env_file"][1].clone()
    };
    assert_ne!(digest(approved(&request(1))), digest(approved(&request(2))));
}

#[test]
fn users_server_refuses_loader_variables_of_a_projects_file() {
    let refused = |json: &str, file: &str| {
        let environment = [(file, "LD_PRELOAD=./evil.so\nA=1"), ("workspaceFolder", "/work/app")];
        program(&entry(json), &Approvals::new(), &environment).err().map(|error| error.kind)
    };
    let loader = Some(ResolveErrorKind::LoaderVariable("LD_PRELOAD".into()));
    assert_eq!(refused(r#"{ "command": "x", "envFile": ".env" }"#, ".env"), loader);
    let of_workspace = r#"{ "command": "x", "envFile": "${workspaceFolder}/.env" }"#;
    assert_eq!(refused(of_workspace, "/work/app/.env"), loader);
    assert_eq!(refused(r#"{ "command": "x", "envFile": "/home/ann/.env" }"#, "/home/ann/.env"), None);
    let named = r#"{ "command": "x", "envFile": ".env", "env": { "LD_PRELOAD": "/opt/mine.so" } }"#;
    assert_eq!(refused(named, ".env"), None);
}

#[test]
fn users_server_refuses_loader_variables_of_a_file_in_the_folder_of_the_project_however_it_is_named() {
    let is_refused = |path: &str, resolved: &str, folder: &str, cwd: &str| {
        let environment = [
            (resolved, "LD_PRELOAD=./evil.so"),
            ("workspaceFolder", folder),
            ("cwd", cwd),
            ("userHome", "/home/ann"),
            ("PWD", cwd),
            ("TOOLS", "/opt/tools"),
        ];
        let json = format!(r#"{{ "command": "x", "envFile": "{path}" }}"#);
        match program(&entry(&json), &Approvals::new(), &environment) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind, ResolveErrorKind::LoaderVariable("LD_PRELOAD".into()), "{path}");
                true
            }
        }
    };
    let absolute = |path: &str, folder: &str, cwd: &str| is_refused(path, path, folder, cwd);
    assert!(is_refused("${env:PWD}/.env", "/work/app/.env", "/home/ann", "/work/app"));
    assert!(absolute("/work/app/conf/.env", "/work/app", "/"));
    assert!(absolute("/work/app/conf/.env", "/home/ann", "/work/app"));
    assert!(absolute("/home/ann/../../work/app/.env", "/work/app", "/"));
    // Where the project is of the user's own folder, its name is of the project, and that of the user's home is not.
    assert!(is_refused("${workspaceFolder}/.env", "/home/ann/.env", "/home/ann", "/"));
    assert!(!is_refused("${userHome}/.env", "/home/ann/.env", "/home/ann", "/"));
    // The folders of the user are no project's.
    for folder in ["/home/ann", "/home", "/"] {
        assert!(!absolute("/home/ann/.env", folder, folder), "{folder}");
    }
    assert!(!absolute("/work/application/.env", "/work/app", "/work/app"));
    // Neither is a folder that another variable names.
    assert!(!is_refused("${env:TOOLS}/.env", "/opt/tools/.env", "/work/app", "/work/app"));
}
