//! Starting programs, and the errors of failed starts.

use std::collections::BTreeSet;

use crate::common::{self, Scratch, run, sh};
use futures_lite::AsyncReadExt as _;
use mcp_smol::{Command, Environment, SpawnError, SpawnErrorKind};

fn failure(command: &Command) -> SpawnError {
    let _entered = common::enter();
    command.spawn().expect_err("the command fails to start")
}

fn output(command: &Command) -> String {
    run(async {
        let mut child = command.spawn().unwrap();
        let mut text = String::new();
        child.stdout.read_to_string(&mut text).await.unwrap();
        child.shutdown().await;
        text
    })
}

/// The names that `env` lists.
fn names(env: &Command) -> BTreeSet<String> {
    output(env).lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
}

/// F25, C12.1: a server on stdio takes credentials from its variables.
#[test]
fn child_gets_arguments_variables_and_directory() {
    let scratch = Scratch::new("arrive");
    let command = sh(r#"printf '%s|' "$0" "$@" "$GREETING"; pwd -P"#)
        .args(["zero", "a b", "*", "$HOME", ""])
        .env("GREETING", "hello\nthere")
        .current_dir(&scratch.0);
    let directory = scratch.0.canonicalize().unwrap();
    assert_eq!(output(&command), format!("zero|a b|*|$HOME||hello\nthere|{}\n", directory.display()));
}

/// C13.1: the previewed command is the one that runs.
#[test]
fn preview_line_runs_the_same_command_in_a_shell() {
    let command = Command::new("printf")
        .args(["%s|", "", "a b", "$(id)", "`id`", "it's", "\\", "*", "~", "a;b&c", "ü", "-n"]);
    let preview = command.preview();
    assert_eq!(output(&sh(&preview.line)), output(&command));
}

/// F31, K10
#[test]
fn a_child_inherits_listed_variables_only() {
    // Cargo sets it for every test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let inherited = output(&Command::new("env").env("ADDED", "1"));
    let names: Vec<&str> =
        inherited.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"PATH"), "{names:?}");
    assert!(names.contains(&"ADDED"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}

/// F31, K10
#[test]
fn a_child_inherits_everything_or_nothing_on_request() {
    let whole = names(&Command::new("env").environment(Environment::Inherited).env("ADDED", "1"));
    assert!(whole.contains("CARGO_MANIFEST_DIR") && whole.contains("ADDED"), "{whole:?}");
    let nothing = output(&Command::new("/usr/bin/env").environment(Environment::Empty).env("ADDED", "1"));
    assert_eq!(nothing, "ADDED=1\n");
}

/// F31
#[test]
fn an_added_variable_replaces_the_inherited_one() {
    let text = output(&sh("echo $HOME").env("HOME", "/first").env("HOME", "/second"));
    assert_eq!(text, "/second\n");
}

/// F25
#[test]
fn error_names_a_missing_program_and_the_searched_directories() {
    let error = failure(&Command::new("no-such-server").args(["-y", "x"]).env("PATH", "/bin:/opt/none"));
    assert_eq!(
        error.to_string(),
        "could not start `no-such-server -y x`: no program of that name in PATH (/bin, /opt/none); \
         is it installed?"
    );
    assert_eq!(error.io_error().kind(), std::io::ErrorKind::NotFound);
}

/// F25
#[test]
fn error_names_a_missing_file_relative_to_the_child() {
    let scratch = Scratch::new("missing");
    let error = failure(&Command::new("bin/server").current_dir(&scratch.0));
    assert_eq!(error.kind(), &SpawnErrorKind::NoSuchFile(scratch.0.join("bin/server")));
}

/// F25
#[test]
fn error_names_a_missing_directory() {
    let error = failure(&Command::new("cat").current_dir("/no/such/directory"));
    assert_eq!(
        error.to_string(),
        "could not start `cat` in /no/such/directory: /no/such/directory is not a directory"
    );
}

/// F25
#[test]
fn error_names_a_file_that_is_not_executable() {
    let scratch = Scratch::new("mode");
    let file = scratch.file("server", "#!/bin/sh\n", 0o644);
    let error = failure(&Command::new(&file));
    assert_eq!(
        error.to_string(),
        format!("could not start `{0}`: {0} is not an executable file", file.display())
    );

    let error = failure(&Command::new("server").env("PATH", &scratch.0));
    assert!(error.to_string().contains(&format!("{} is not executable", file.display())), "{error}");
}

/// F25
#[test]
fn error_names_a_missing_interpreter() {
    let scratch = Scratch::new("interpreter");
    let script = scratch.file("server", "#!/no/such/python3 -u\nprint()\n", 0o755);
    let expected =
        SpawnErrorKind::NoInterpreter { script: script.clone(), interpreter: "/no/such/python3".to_owned() };
    assert_eq!(failure(&Command::new(&script)).kind(), &expected);
    assert_eq!(failure(&Command::new("server").env("PATH", &scratch.0)).kind(), &expected);
}

/// F25
#[test]
fn messages_omit_the_values_of_variables() {
    let command = Command::new("no-such-server").env("TOKEN", "secret");
    let error = failure(&command);
    assert!(!format!("{command:?} {error} {error:?}").contains("secret"));
}

/// F25
#[test]
fn debug_output_of_an_error_omits_the_arguments() {
    let error = failure(&Command::new("no-such-server").arg("--key=secret"));
    let shown = format!("{error:?}");
    assert!(!shown.contains("secret") && shown.contains("no-such-server"), "{shown}");
}

/// C3.6
#[test]
fn command_can_be_spawned_twice() {
    let command = sh("echo $$");
    assert_ne!(output(&command), output(&command));
}
