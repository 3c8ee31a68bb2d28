//! Headers and variables for the server: of the command line, and of files and the environment, which other users of
//! the machine cannot read.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use mcp_proto::host::config::parse_dotenv;

use crate::error::CommandError;
use crate::options::{CommonOptions, header};

/// The headers for a server at a URL. Those of the command line come last.
pub(crate) fn headers(common: &CommonOptions) -> Result<Vec<(String, String)>, CommandError> {
    let mut headers = Vec::new();
    for file in &common.header_files {
        let text = read("--header-file", file)?;
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            headers.push(header(line).map_err(|_| {
                let (file, number) = (file.display(), number + 1);
                let why = format!("--header-file {file}: line {number} is not of the form NAME: VALUE");
                CommandError::Usage(why)
            })?);
        }
    }
    for (name, variable) in &common.header_variables {
        let value = env::var(variable).map_err(|error| {
            CommandError::Usage(format!("--header-env {name}={variable}: {}", why_unreadable(&error)))
        })?;
        headers.push((name.clone(), value));
    }
    headers.extend(common.headers.iter().cloned());
    Ok(headers)
}

/// The variables for a server that is started. Those of the command line come last.
pub(crate) fn variables(common: &CommonOptions) -> Result<Vec<(String, OsString)>, CommandError> {
    let mut variables = Vec::new();
    for file in &common.env_files {
        let read = parse_dotenv(&read("--env-file", file)?);
        let read =
            read.map_err(|error| CommandError::Usage(format!("--env-file {}: {error}", file.display())))?;
        variables.extend(read.into_iter().map(|(name, value)| (name, value.expose().into())));
    }
    for (name, value) in &common.variables {
        let value = match value {
            Some(value) => value.into(),
            None => env::var_os(name)
                .ok_or_else(|| CommandError::Usage(format!("--env {name}: the variable is not set")))?,
        };
        variables.push((name.clone(), value));
    }
    Ok(variables)
}

fn read(option: &str, file: &Path) -> Result<String, CommandError> {
    fs::read_to_string(file)
        .map_err(|error| CommandError::Usage(format!("{option} {}: {error}", file.display())))
}

/// The error of the library shows the value.
fn why_unreadable(error: &env::VarError) -> &'static str {
    match error {
        env::VarError::NotPresent => "the variable is not set",
        env::VarError::NotUnicode(_) => "the value is not UTF-8",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::options::Options;

    fn common(line: &[&str]) -> CommonOptions {
        Options::try_parse_from([&["mcpio", "demo"], line].concat()).unwrap().common
    }

    fn usage<T: std::fmt::Debug>(result: Result<T, CommandError>) -> String {
        match result {
            Err(CommandError::Usage(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn secrets_come_from_files_and_the_environment() {
        let folder = env::temp_dir().join(format!("mcp-secrets-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (lines, none) = (folder.join("lines"), folder.join("none"));
        let (lines_path, none) = (lines.to_str().unwrap(), none.to_str().unwrap());
        let path = env::var("PATH").unwrap();

        fs::write(&lines, "# keys\nAuthorization: Bearer s3cret\n\nX-Where: a:b\n").unwrap();
        let of_header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let read = headers(&common(&[
            "--header",
            "X: 1",
            "--header-file",
            lines_path,
            "--header-env",
            "X-Path=PATH",
        ]));
        let expected = [
            of_header("Authorization", "Bearer s3cret"),
            of_header("X-Where", "a:b"),
            of_header("X-Path", &path),
            of_header("X", "1"),
        ];
        assert_eq!(read.unwrap(), expected);
        fs::write(&lines, "A: 1\ns3cret\n").unwrap();
        let why = usage(headers(&common(&["--header-file", lines_path])));
        assert!(why.contains("line 2") && !why.contains("s3cret"), "{why}");

        fs::write(&lines, "KEY='s3cret'\nMODE=a\n").unwrap();
        let read = variables(&common(&["--env", "MODE=b", "--env", "PATH", "--env-file", lines_path]));
        let of_variable = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
        let expected = [
            of_variable("KEY", "s3cret"),
            of_variable("MODE", "a"),
            of_variable("MODE", "b"),
            of_variable("PATH", &path),
        ];
        assert_eq!(read.unwrap(), expected);
        fs::write(&lines, "s3cret\n").unwrap();
        let why = usage(variables(&common(&["--env-file", lines_path])));
        assert!(why.contains("line 1") && !why.contains("s3cret"), "{why}");

        let unset = "MCPIO_TEST_NEVER_SET";
        for why in [
            usage(headers(&common(&["--header-file", none]))),
            usage(headers(&common(&["--header-env", &format!("A={unset}")]))),
            usage(variables(&common(&["--env-file", none]))),
            usage(variables(&common(&["--env", unset]))),
        ] {
            assert!(why.starts_with("--") && (why.contains(none) || why.contains(unset)), "{why}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
