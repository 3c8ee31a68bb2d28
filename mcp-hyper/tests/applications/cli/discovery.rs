//! The command-line client with the configuration files of known applications, which it finds by itself.

use std::fs;
use std::process::Stdio;

use crate::common::cli::{CommandOutput, output};
use serde_json::{Value, json};

use super::many::{Home, names};

/// F86
#[test]
fn commands_without_flags_use_the_files_of_known_applications() {
    let home = Home::new("known");
    home.servers(".cursor/mcp.json", json!({ "own": home.demo("own") }));
    home.servers("project/.mcp.json", json!({ "theirs": home.demo("theirs") }));
    let here = home.path("project");
    let claude = json!({ "projects": { here: { "mcpServers": { "here": home.demo("here") } } } });
    home.write(".claude.json", &claude);
    let servers = home.json(&["servers"]);
    let shown: Vec<_> = servers["servers"].as_array().unwrap().iter().collect();
    let shown: Vec<_> = shown.iter().map(|it| (it["server"].as_str(), it["status"].as_str())).collect();
    let expected = [("here", "connected"), ("own", "connected"), ("theirs", "not approved")];
    assert_eq!(shown, expected.map(|(name, status)| (Some(name), Some(status))));
    assert_eq!(home.json(&["call", "here", "add", "a=2", "b=3"])["structuredContent"], json!({ "sum": 5 }));
    assert_eq!(names(&home.json(&["search", "adds", "numbers"])["tools"], "server")[..2], ["here", "own"]);

    let tools = home.run(&["tools", "own"]);
    assert!(tools.code == 0 && tools.out.contains("mcp__own__add"), "{}{}", tools.out, tools.err);
    // Only `servers` lists the files.
    assert!(!tools.err.contains("mcp.json"), "{}", tools.err);
    let servers = home.run(&["servers"]);
    assert!(servers.err.contains(".cursor/mcp.json: 1 server\n"), "{}", servers.err);
    let doctor = home.run(&["doctor"]);
    assert!(doctor.out.contains("mcpio approve theirs"), "{}", doctor.out);
    let login = home.run(&["login", "nothing"]);
    assert!(login.code == 2 && login.err.contains("no server \"nothing\""), "{}", login.err);
    assert_eq!(home.processes("theirs"), [] as [i32; 0]);
}

#[test]
fn files_of_known_applications_are_the_users_own() {
    let home = Home::new("own");
    let file = home.servers(".cursor/mcp.json", json!({ "mine": home.demo("mine") }));
    let shown = home.json(&["servers", "--config", &file]);
    assert_eq!(
        (&shown["servers"][0]["status"], &shown["servers"][0]["scope"]),
        (&json!("connected"), &json!("user"))
    );
    // The same name in a project is a project's.
    let theirs = home.servers("project/.cursor/mcp.json", json!({ "theirs": home.demo("theirs") }));
    let shown = home.json(&["servers", "--config", &theirs]);
    assert_eq!(shown["servers"][0]["status"], "not approved");
    // A project takes no name of the user's.
    let theirs = home.servers("project/.mcp.json", json!({ "mine": home.demo("shadow") }));
    let shown = home.json(&["servers", "--config", &theirs, "--config", &file]);
    assert_eq!((names(&shown["servers"], "scope"), home.processes("shadow").len()), (vec!["user"], 0));
    // A file of Claude has servers of the user for single projects.
    let servers = |name: &str| json!({ "mcpServers": { name: home.demo(name) } });
    let (here, elsewhere) = (home.path("project"), home.path("elsewhere"));
    let projects = json!({ "projects": { here: servers("here"), elsewhere: servers("elsewhere") } });
    let shown = home.json(&["servers", "--config", &home.write(".claude.json", &projects)]);
    let fields = ["server", "status", "scope"].map(|field| names(&shown["servers"], field).concat());
    assert_eq!(fields, ["here", "connected", "user"]);
}

#[test]
fn import_prints_one_configuration_without_resolving_references() {
    let home = Home::new("import");
    home.servers(
        ".cursor/mcp.json",
        json!({ "a": { "command": "x", "env": { "K": "${env:MCPIO_TEST_KEY}" } } }),
    );
    home.write(
        ".config/Code/User/mcp.json",
        &json!({ "servers": { "b": { "url": "https://b.example/mcp" } } }),
    );
    home.servers("project/.mcp.json", json!({ "theirs": { "command": "y" } }));
    let mut command = home.command(&["import"]);
    command.env("MCPIO_TEST_KEY", "hunter2").stdin(Stdio::null());
    let ran = CommandOutput::of(output(&mut command.into()));
    assert_eq!(ran.code, 0, "{}", ran.err);
    let printed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        printed,
        json!({ "mcpServers": {
            "a": { "command": "x", "env": { "K": "${env:MCPIO_TEST_KEY}" } },
            "b": { "type": "http", "url": "https://b.example/mcp" },
        } })
    );
    let shown = home.json(&["import"]);
    assert_eq!(shown["notes"].as_array().unwrap().len(), 2, "{shown}");
}

#[test]
fn relative_folders_of_settings_are_ignored() {
    for (variable, file) in
        [("HOME", "project/conf/.cursor/mcp.json"), ("XDG_CONFIG_HOME", "project/conf/Code/User/mcp.json")]
    {
        let home = Home::new("relative");
        home.servers(".cursor/mcp.json", json!({ "own": home.demo("own") }));
        let key = if variable == "HOME" { "mcpServers" } else { "servers" };
        home.write(file, &json!({ key: { "evil": home.demo("evil") } }));
        let mut command = home.command(&["tools"]);
        command.env(variable, "conf").stdin(Stdio::null());
        let ran = CommandOutput::of(output(&mut command.into()));
        assert_eq!(home.processes("evil"), [] as [i32; 0], "{variable}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn home_folder_is_no_project() {
    let home = Home::new("athome");
    home.servers(".cursor/mcp.json", json!({ "own": home.demo("own") }));
    home.write(".gemini/settings.json", &json!({ "mcpServers": { "broken": { "command": 5 } } }));
    let mut command = home.command(&["servers"]);
    command.current_dir(&home.0).stdin(Stdio::null());
    let ran = CommandOutput::of(output(&mut command.into()));
    assert!(!ran.err.contains("left out"), "{}", ran.err);
    assert_eq!(ran.err.matches(".cursor/mcp.json: ").count(), 1, "{}", ran.err);
}

#[test]
fn call_of_a_url_without_a_tool_starts_no_server() {
    let home = Home::new("urlcall");
    home.servers(".cursor/mcp.json", json!({ "own": home.demo("own") }));
    for args in
        [&["call", "https://localhost:1/mcp"][..], &["tools", "--header", "bad", "https://localhost:1/mcp"]]
    {
        let ran = home.run(args);
        assert_eq!(home.processes("own"), [] as [i32; 0], "{args:?} {} {}{}", ran.code, ran.out, ran.err);
    }
}

#[test]
#[cfg(unix)]
fn file_is_bound_to_the_same_path_with_config_and_without() {
    let home = Home::new("linked");
    home.servers("elsewhere/mcp.json", json!({ "theirs": home.demo("theirs") }));
    std::os::unix::fs::symlink(home.path("elsewhere"), home.path("project/.cursor")).unwrap();
    let by_config = home.json(&["servers", "--config", ".cursor/mcp.json"]);
    let found = home.json(&["servers"]);
    assert_eq!(by_config, found);
}

#[test]
#[cfg(unix)]
fn servers_of_the_user_run_no_program_of_the_folder() {
    let home = Home::new("runs");
    let own = json!({
        "own": { "command": "sh", "args": ["server.sh"] },
        "npx": { "command": "npx", "args": ["-y", "some-server"] },
    });
    home.servers(".cursor/mcp.json", own);
    let mark = |name: &str| format!("#!/bin/sh\necho $$ >> '{}'\n", home.path(name));
    fs::write(home.path("project/server.sh"), mark("ran")).unwrap();
    fs::create_dir_all(home.path("project/node_modules/.bin")).unwrap();
    let program = home.path("project/node_modules/.bin/some-server");
    fs::write(&program, mark("ran")).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = home.run(&["servers"]);
    assert_eq!(home.processes("ran"), [] as [i32; 0], "{}{}", ran.out, ran.err);
}

#[test]
fn call_of_a_tool_of_a_server_that_is_left_out_says_why() {
    let home = Home::new("omitted");
    home.servers(".cursor/mcp.json", json!({ "own": home.demo("same") }));
    home.servers("project/.mcp.json", json!({ "theirs": home.demo("same") }));
    let ran = home.run(&["call", "theirs.add", "a=1", "b=2"]);
    assert!(ran.code == 2 && ran.err.contains("the server \"theirs\" is left out"), "{}", ran.err);
}
