//! Roots: the directories and files that a server may work in.

use core::fmt::Write as _;

use iri_string::percent_encode::PercentEncodedForUri;

use super::object::object;
use super::{List, Meta};
use crate::codec::percent_decode;
use crate::prelude::*;

object! {
    /// The result of `roots/list`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/roots>
    pub result ListRootsResult {
        required {
            /// The roots.
            roots: List<Root> = "roots";
        }
    }

    /// A directory or file that a server may work in.
    pub struct Root {
        required {
            /// Location: a `file://` URI.
            uri: String = "uri";
        }
        optional {
            /// Human-readable title.
            name: Option<String> = "name";
            /// Metadata attached to it.
            meta: Meta = "_meta" since V2025_06_18;
        }
    }
}

impl Root {
    /// Creates the root of a local directory or file from its absolute path.
    ///
    /// Unix paths, such as `/home/me/project`, and Windows paths, such as `C:\\Projects\\one`, are accepted.
    ///
    /// ```
    /// use mcp_proto::schema::Root;
    ///
    /// let root = Root::from_path("/home/me/my project")?;
    /// assert_eq!(root.uri, "file:///home/me/my%20project");
    /// assert!(root.contains("file:///home/me/my%20project/src/lib.rs"));
    /// assert!(!root.contains("file:///home/me/my%20project/../secrets"));
    /// # Ok::<(), mcp_proto::schema::RootError>(())
    /// ```
    ///
    /// # Errors
    /// If the path is relative, contains `.` or `..`, or has a name with NUL or (except on Windows) a backslash.
    pub fn from_path(path: &str) -> Result<Self, RootError> {
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
                // The colon after a drive letter is not encoded.
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

    /// Checks that the root may be sent to a server.
    ///
    /// It must be a `file://` URI of this machine without `.` and `..` in any encoding. The front checks the roots that
    /// handlers return.
    ///
    /// # Errors
    /// The first rule that the URI breaks.
    pub fn check(&self) -> Result<(), RootError> {
        segments(&self.uri)?;
        //= C11.7 "Roots: `file://` URIs only"
        let complete =
            self.uri.get(.."file://".len()).is_some_and(|start| start.eq_ignore_ascii_case("file://"));
        if complete { Ok(()) } else { Err(RootError::Scheme) }
    }

    /// The path of the directory or file on this machine.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use mcp_proto::schema::Root;
    ///
    /// # #[cfg(unix)] {
    /// let root = Root::from_path("/home/me/my project")?;
    /// assert_eq!(root.path()?, Path::new("/home/me/my project"));
    /// # }
    /// # Ok::<(), mcp_proto::schema::RootError>(())
    /// ```
    ///
    /// # Errors
    /// If the URI is not that of a root, or is none of a path on this system.
    #[cfg(feature = "std")]
    pub fn path(&self) -> Result<std::path::PathBuf, RootError> {
        let separator = if cfg!(windows) { b'\\' } else { b'/' };
        let mut path = Vec::new();
        for (index, segment) in segments(&self.uri)?.into_iter().enumerate() {
            // On Windows, the first segment is the drive.
            if index > 0 || cfg!(not(windows)) {
                path.push(separator);
            }
            path.extend(segment);
        }
        if path.is_empty() || path.ends_with(b":") && cfg!(windows) {
            path.push(separator);
        }
        #[cfg(unix)]
        return Ok(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path).into());
        #[cfg(not(unix))]
        String::from_utf8(path).map(Into::into).map_err(|_| RootError::NotAbsolute)
    }

    /// Whether `uri` is this root or lies within it.
    ///
    /// The check compares names only; a program that opens the file must resolve symbolic links itself. A URI with `.`,
    /// `..` or an encoded separator lies within no root.
    pub fn contains(&self, uri: &str) -> bool {
        match (segments(&self.uri), segments(uri)) {
            (Ok(root), Ok(inside)) => inside.starts_with(&root),
            _ => false,
        }
    }

    /// Name to display: the name, or the URI if there is no name.
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
        let decoded = percent_decode(part).ok_or(RootError::NotAbsolute)?;
        //= C11.7 "validated against traversal"
        let leads_elsewhere = matches!(decoded.as_slice(), b"." | b"..");
        if leads_elsewhere || decoded.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0)) {
            return Err(RootError::Traversal);
        }
        found.push(decoded);
    }
    Ok(found)
}

/// Reason why a URI or path is not a valid root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootError {
    /// It does not start with `file://`.
    Scheme,
    /// It names another machine.
    Host,
    /// Its path is not absolute, or cannot be decoded.
    NotAbsolute,
    /// Its path contains `.`, `..`, or a name with a separator or NUL.
    Traversal,
}

error_text! { RootError:
    Scheme => "the root is not a `file://` URI";
    Host => "the root's URI names another machine: leave the host out";
    NotAbsolute => "the root's path is not absolute, or not a valid URI path";
    Traversal => "the root's path contains `.`, `..`, or a name with a separator or NUL";
}
