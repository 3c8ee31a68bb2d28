//! Where the known applications keep their configuration.

use alloc::format;
use alloc::vec::Vec;

use super::Source;

/// Folders in which applications look for their configuration. Either kind of slash separates their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folders<'a> {
    /// The user's home.
    pub home: &'a str,
    /// Where applications keep their settings: `$XDG_CONFIG_HOME` or `~/.config`, on macOS
    /// `~/Library/Application Support`, on Windows `%APPDATA%`.
    pub settings: &'a str,
    /// The folder of the project, if one is open.
    pub project: Option<&'a str>,
}

impl Source {
    /// The files of the known applications, the project's before the user's; most do not exist.
    ///
    /// ```
    /// use mcp_proto::host::config::{Application, Folders, Source};
    ///
    /// let folders = Folders { home: "/home/ann", settings: "/home/ann/.config", project: Some("/work/app") };
    /// let files = Source::known_files(&folders);
    /// assert!(files.contains(&Source::project("/work/app/.vscode/mcp.json")));
    /// let codex = files.iter().find(|file| file.application == Application::Codex).unwrap();
    /// assert_eq!(codex.path, "/work/app/.codex/config.toml");
    /// ```
    pub fn known_files(folders: &Folders<'_>) -> Vec<Self> {
        let in_project = [
            ".mcp.json",
            ".cursor/mcp.json",
            ".vscode/mcp.json",
            ".gemini/settings.json",
            ".zed/settings.json",
            ".codex/config.toml",
        ];
        let in_home = [
            ".claude.json",
            ".cursor/mcp.json",
            ".codeium/windsurf/mcp_config.json",
            ".gemini/settings.json",
            // On macOS too.
            ".config/zed/settings.json",
            ".codex/config.toml",
        ];
        let in_settings =
            ["Claude/claude_desktop_config.json", "Code/User/mcp.json", "Code/User/settings.json"];
        let path = |folder: &str, file: &str| format!("{}/{file}", folder.trim_end_matches('/'));
        let project =
            folders.project.into_iter().flat_map(|folder| in_project.map(|file| path(folder, file)));
        let home = in_home.map(|file| path(folders.home, file));
        let settings = in_settings.map(|file| path(folders.settings, file));
        let user = home.into_iter().chain(settings).map(Self::user);
        project.map(Self::project).chain(user).collect()
    }
}
