//! The servers that a user's file has for single projects: `projects` in `.claude.json`.

use alloc::string::String;
use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::document::{Document, syntax_error};
use super::read::decoded;
use super::{ConfigErrorKind, ConfigFile, Source, jsonc};

impl ConfigFile {
    /// Reads the servers that a file of Claude Code has for the project in this folder, an absolute path: those of
    /// `projects` under it. Without such servers the file is empty. As the user has written them, `source` is the user's;
    /// [`Config::merge`](super::Config::merge) them before the file's [other servers](Self::parse), over which they
    /// have precedence.
    ///
    /// ```
    /// use mcp_proto::host::config::{Config, ConfigFile, Source};
    ///
    /// let text = br#"{
    ///     "mcpServers": { "search": { "url": "https://search.example/mcp" } },
    ///     "projects": { "/work/app": { "mcpServers": { "files": { "command": "mcp-files" } } } }
    /// }"#;
    /// let source = Source::user("/home/ann/.claude.json");
    /// let of_project = ConfigFile::parse_of_project(source.clone(), text, "/work/app");
    /// let config = Config::merge([of_project, ConfigFile::parse(source, text)]);
    /// assert!(config.find("files").is_some() && config.find("search").is_some());
    /// ```
    pub fn parse_of_project(source: Source, text: &[u8], folder: &str) -> Self {
        let mut file = Self::new(source);
        let document = decoded(&file.source, text).and_then(|text| of_project(text, folder));
        match document {
            Ok(document) if document.tables.is_empty() => {}
            Ok(document) => file.read(document),
            Err(kind) => file.error(None, kind),
        }
        file.salvage_names(text);
        file
    }
}

fn of_project(text: &str, folder: &str) -> Result<Document, ConfigErrorKind> {
    let json = jsonc::to_json(text);
    let mut json = serde_json::Deserializer::from_slice(&json);
    let folder = normal(folder);
    let document = Root(Folder(&folder)).deserialize(&mut json);
    document.and_then(|document| json.end().map(|()| document)).map_err(|error| syntax_error(&error))
}

/// A path with slashes, none of them at its end.
fn normal(path: &str) -> String {
    let path = path.replace('\\', "/");
    path.trim_end_matches('/').into()
}

/// Reads the member `projects` of a file, and skips the others.
struct Root<'a>(Folder<'a>);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(name) = members.next_key::<String>()? {
            if name == "projects" {
                document = members.next_value_seed(self.0)?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(document)
    }
}

/// Reads the servers of the project in this folder, and skips the other projects.
#[derive(Clone, Copy)]
struct Folder<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Folder<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Folder<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of projects by folder")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut projects: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(folder) = projects.next_key::<String>()? {
            if normal(&folder) == self.0 {
                document = projects.next_value()?;
            } else {
                projects.next_value::<IgnoredAny>()?;
            }
        }
        Ok(document)
    }
}
