//! Folders of projects, from the paths of their files.

use alloc::format;
use alloc::string::String;

use super::{Lookup, PredefinedVariable};

/// The folders of applications within a project.
const APPLICATION_FOLDERS: [&str; 5] = [".codex", ".cursor", ".gemini", ".vscode", ".zed"];

/// The folder of the project whose file has this path: the folder of the file, or the one around the folder of an
/// application. `None` if the path is not absolute.
pub(super) fn project_folder(path: &str) -> Option<&str> {
    let (parent, _) = split(path).filter(|_| is_absolute(path))?;
    let around = split(parent)
        .filter(|(_, name)| APPLICATION_FOLDERS.iter().any(|folder| folder.eq_ignore_ascii_case(name)));
    Some(around.map_or(parent, |(around, _)| around))
}

/// The value that a project's entry gets for a variable which is the folder of the project: it means no other, wherever
/// the application runs.
pub(super) fn value_of<'a>(project: &'a str, lookup: &Lookup) -> Option<&'a str> {
    match lookup {
        Lookup::Predefined(PredefinedVariable::WorkspaceFolder | PredefinedVariable::WorkingDirectory) => {
            Some(project)
        }
        Lookup::Predefined(PredefinedVariable::WorkspaceFolderBasename) => Some(base_name(project)),
        Lookup::Variable(name) if name == "PWD" => Some(project),
        _ => None,
    }
}

/// Whether this path begins at a root, of Unix or of Windows.
pub(super) fn is_absolute(path: &str) -> bool {
    let mut characters = path.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some('/'), ..) | (Some('\\'), Some('\\'), _) => true,
        (Some(drive), Some(':'), Some('/' | '\\')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

/// The path, which begins in this folder unless it is absolute.
pub(super) fn join(folder: &str, path: &str) -> String {
    if is_absolute(path) {
        return path.into();
    }
    let separator = if folder.starts_with('/') { '/' } else { '\\' };
    let path = path.strip_prefix("./").unwrap_or(path);
    match path {
        "" | "." => folder.into(),
        _ => format!("{}{separator}{path}", folder.trim_end_matches(separator)),
    }
}

/// Whether the path, which is not normalised, is below the folder without a step upwards.
pub(super) fn is_below(folder: &str, path: &str) -> bool {
    path != folder && contains(folder, path) && !has_step_upwards(path)
}

/// Whether the path begins with the folder.
pub(super) fn contains(folder: &str, path: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches(is_any_separator));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_any_separator))
}

/// Whether the path has a step to the folder around another one.
pub(super) fn has_step_upwards(path: &str) -> bool {
    path.split(is_any_separator).any(|name| name == "..")
}

/// Whether this relative path names a file rather than a program to search for.
pub(super) fn has_folder(path: &str) -> bool {
    path.contains(is_any_separator)
}

/// The name of the folder.
fn base_name(folder: &str) -> &str {
    split(folder).map_or(folder, |(_, name)| name)
}

/// The folder of a path, with its separator only if it is a root, and the name in it.
fn split(path: &str) -> Option<(&str, &str)> {
    let at = path.rfind(|c| is_separator(path, c))?;
    let (folder, name) = path.split_at_checked(at)?;
    let name = name.get(1..)?;
    let is_root = folder.is_empty() || folder.ends_with(':');
    Some((if is_root { path.get(..=at)? } else { folder }, name)).filter(|_| !name.is_empty())
}

/// Whether this separates the parts of such a path: a backslash does not in a path that begins with a slash.
fn is_separator(path: &str, c: char) -> bool {
    c == '/' || (c == '\\' && !path.starts_with('/'))
}

const fn is_any_separator(c: char) -> bool {
    matches!(c, '/' | '\\')
}
