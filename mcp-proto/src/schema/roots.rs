//! Roots: where a server may work.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use iri_string::percent_encode::PercentEncodedForUri;

use super::list::List;
use super::meta::Meta;
use super::object::object;
use crate::codec::percent;

object! {
    /// The result of `roots/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub result ListRootsResult {
        required {
            /// Where the server may work.
            roots: List<Root> = "roots";
        }
        optional {}
    }
}

object! {
    /// A place where a server may work.
    pub struct Root {
        required {
            /// Where it is: a `file://` URI.
            uri: String = "uri";
        }
        optional {
            /// Its name for people.
            name: Option<String> = "name";
            /// What else goes with it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Root {
    /// A directory, or a file, of this machine: an absolute path, as `/service/me/project` or `C:\\Projects\\one`.
    ///
    /// ```
    /// use mcp_proto::schema::Root;
    ///
    /// let root = Root::of_path("/home/me/my project")?;
    /// assert_eq!(root.uri, "file:///home/me/my%20project");
    /// assert!(root.contains("file:///home/me/my%20project/src/lib.rs"));
    /// assert!(!root.contains("file:///home/me/my%20project/../secrets"));
    /// # Ok::<(), mcp_proto::schema::RootError>(())
    /// ```
    ///
    /// # Errors
    /// If the path is not absolute, leads up, or has a backslash (but on Windows) or a zero in a name.
    pub fn of_path(path: &str) -> Result<Self, RootError> {
        let windows =
            matches!(path.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
        if !windows && !path.starts_with('/') {
            return Err(RootError::NotAbsolute);
        }
        let mut uri = String::from("file://");
        let separators: &[char] = if windows { &['\\', '/'] } else { &['/'] };
        let parts = path.split(separators).filter(|part| !part.is_empty());
        for (index, part) in parts.enumerate() {
            uri.push('/');
            match part {
                "." | ".." => return Err(RootError::Traversal),
                // A drive keeps its colon.
                _ if windows && index == 0 => uri.push_str(part),
                _ => _ = write!(uri, "{}", PercentEncodedForUri::from_path_segment(part)),
            }
        }
        if uri == "file://" {
            uri.push('/');
        }
        let root = Self::new(uri);
        root.check().map(|()| root)
    }

    /// Whether it may be told to a server: a `file:` URI of this machine without `.` and `..`, however they are encoded.
    ///
    /// The front checks this of what handlers return.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), RootError> {
        segments(&self.uri).map(drop)
    }

    /// Whether the `file:` URI lies within it, or is it, as far as names tell: links in the file system are for whoever
    /// opens the file.
    ///
    /// A URI with `.` or `..`, or with an encoded separator, lies within nothing.
    pub fn contains(&self, uri: &str) -> bool {
        match (segments(&self.uri), segments(uri)) {
            (Ok(root), Ok(inside)) => inside.starts_with(&root),
            _ => false,
        }
    }

    /// What to show people: the name, then the URI.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.uri)
    }
}

/// The decoded segments of a `file:` URI's path.
fn segments(uri: &str) -> Result<Vec<Vec<u8>>, RootError> {
    let (scheme, rest) = uri.split_once(':').ok_or(RootError::Scheme)?;
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(RootError::Scheme);
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let (host, path) =
                rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or_default();
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(RootError::Host);
            }
            path
        }
        None => rest,
    };
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(RootError::NotAbsolute);
    }
    let mut found = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let decoded = percent::decode(part).ok_or(RootError::NotAbsolute)?;
        let leads_elsewhere = matches!(decoded.as_slice(), b"." | b"..");
        if leads_elsewhere || decoded.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0)) {
            return Err(RootError::Traversal);
        }
        found.push(decoded);
    }
    Ok(found)
}

/// Why something is no root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootError {
    /// It is no `file:` URI.
    Scheme,
    /// It is on another machine.
    Host,
    /// It is no absolute path, or none that can be read.
    NotAbsolute,
    /// It leads up, or has a separator or a zero within a name.
    Traversal,
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "a root is a file: URI",
            Self::Host => "a root is on this machine",
            Self::NotAbsolute => "a root is an absolute path",
            Self::Traversal => "a root does not lead elsewhere by `..` or a separator in a name",
        })
    }
}

impl core::error::Error for RootError {}
