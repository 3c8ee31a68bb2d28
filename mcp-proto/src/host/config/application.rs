//! The applications whose configuration files are read, and what differs between them.

/// The application whose format a configuration file has.
///
/// ```
/// use mcp_proto::host::config::Application;
///
/// assert_eq!(Application::from_path("/home/ann/.gemini/settings.json"), Application::Gemini);
/// assert_eq!(Application::from_path(r"C:\work\app\.vscode\mcp.json"), Application::VsCode);
/// assert_eq!(Application::from_path("servers.json"), Application::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Application {
    /// Claude Code: `.mcp.json` of a project, and `.claude.json`.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Codex, in TOML.
    Codex,
    /// Cursor.
    Cursor,
    /// Gemini CLI.
    Gemini,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Any other: every form is accepted.
    Other,
}

impl Application {
    /// Recognises the application by the path of its file, with either kind of slash.
    pub fn from_path(path: &str) -> Self {
        let path = path.replace('\\', "/").to_ascii_lowercase();
        let ends_with = |end: &str| {
            path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let endings: [(&str, Self); 12] = [
            ("claude_desktop_config.json", Self::ClaudeDesktop),
            (".mcp.json", Self::ClaudeCode),
            (".claude.json", Self::ClaudeCode),
            (".cursor/mcp.json", Self::Cursor),
            (".vscode/mcp.json", Self::VsCode),
            ("code/user/mcp.json", Self::VsCode),
            ("code/user/settings.json", Self::VsCode),
            ("mcp_config.json", Self::Windsurf),
            (".gemini/settings.json", Self::Gemini),
            ("zed/settings.json", Self::Zed),
            (".zed/settings.json", Self::Zed),
            (".codex/config.toml", Self::Codex),
        ];
        endings
            .into_iter()
            .find(|(end, _)| ends_with(end))
            .map_or(Self::Other, |(_, application)| application)
    }

    /// The name as its maker writes it; `other` for [`Other`](Self::Other).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::Gemini => "Gemini",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
            Self::Other => "other",
        }
    }

    /// Which references this application replaces in texts.
    pub(super) const fn references(self) -> References {
        match self {
            Self::ClaudeDesktop | Self::Codex | Self::Zed => References::None,
            Self::VsCode => References::Prefixed,
            Self::Gemini => References::WithoutBraces,
            Self::ClaudeCode | Self::Cursor | Self::Windsurf | Self::Other => References::Braces,
        }
    }

    /// Whether the member `timeout` counts seconds rather than milliseconds.
    pub(super) const fn timeout_is_in_seconds(self) -> bool {
        matches!(self, Self::Zed)
    }

    /// Whether the member `timeout` applies to the start of a server too, not only to its calls.
    pub(super) const fn timeout_covers_start(self) -> bool {
        !matches!(self, Self::ClaudeCode | Self::Zed)
    }
}

/// The forms of references that an application replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// None: every text is literal.
    None,
    /// `${env:X}`, `${input:x}` and predefined variables; `${X}` is literal.
    Prefixed,
    /// Those, `${X}` and `${X:-default}`.
    Braces,
    /// Those and `$X`.
    WithoutBraces,
}
