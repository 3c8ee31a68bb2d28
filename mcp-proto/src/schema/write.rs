//! Writing a value with the fields of one revision.

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Revision, Revisions};
use crate::prelude::*;
use crate::rpc::{Id, write};

/// The part of a value that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All fields, so that a round trip loses nothing.
    Full,
    /// The fields of one revision, and unknown fields verbatim.
    At(Revision),
}

impl Projection {
    /// Whether to write a field or value that only `revisions` have.
    pub const fn has(self, revisions: Revisions) -> bool {
        match self {
            Self::Full => true,
            Self::At(revision) => revisions.contains(revision),
        }
    }

    /// Whether to write a field or value that exists since `first`.
    pub const fn since(self, first: Revision) -> bool {
        self.has(Revisions::since(first))
    }
}

impl From<Revision> for Projection {
    fn from(revision: Revision) -> Self {
        Self::At(revision)
    }
}

/// A value whose JSON depends on the revision.
///
/// Fields that a revision does not have are left out; values that it does not have become the nearest value that it
/// has. [`Serialize`] of the same types writes everything; like `Deserialize`, it is for the formats of serde_json.
pub trait WriteAt {
    /// Appends the part of the value that `view` selects, as JSON.
    fn write(&self, view: Projection, out: &mut Vec<u8>);
}

/// Serializes a value with the fields of a revision.
///
/// ```
/// use mcp_proto::schema::{At, Implementation, Revision};
///
/// let mut info = Implementation::new("server", "1.0.0");
/// info.title = Some("The Server".into());
/// let text = serde_json::to_string(&At(&info, Revision::V2024_11_05))?;
/// assert_eq!(text, r#"{"name":"server","version":"1.0.0"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct At<'a, T: ?Sized>(pub &'a T, pub Revision);

impl<T: WriteAt + ?Sized> Serialize for At<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(self.0, Projection::At(self.1), serializer)
    }
}

/// Serializes the part of a value that `view` selects.
pub(crate) fn serialize<T: WriteAt + ?Sized, S: Serializer>(
    value: &T,
    view: Projection,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut out = Vec::new();
    value.write(view, &mut out);
    let json: &RawValue = serde_json::from_slice(&out).map_err(S::Error::custom)?;
    json.serialize(serializer)
}

/// Appends the name of a member to an open object: a name with its quotes and the colon.
pub(crate) fn known_name(out: &mut Vec<u8>, name: &'static str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.extend_from_slice(name.as_bytes());
}

/// Appends a member to an open object.
pub(crate) fn member<T: WriteAt + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T, view: Projection) {
    known_name(out, "");
    name.write(view, out);
    out.push(b':');
    value.write(view, out);
}

/// Appends a member that is the same at every revision to an open object. Its name has no characters to escape.
pub(crate) fn entry<T: WriteAt + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    known_name(out, "\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    value.write(Projection::Full, out);
}

impl<T: WriteAt + ?Sized> WriteAt for &T {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        (**self).write(view, out);
    }
}

impl<T: WriteAt + ?Sized> WriteAt for Box<T> {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        (**self).write(view, out);
    }
}

impl<T: WriteAt> WriteAt for Option<T> {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(view, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl<T: WriteAt> WriteAt for [T] {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            item.write(view, out);
        }
        out.push(b']');
    }
}

impl<T: WriteAt> WriteAt for Vec<T> {
    fn write(&self, view: Projection, out: &mut Vec<u8>) {
        self.as_slice().write(view, out);
    }
}

impl WriteAt for str {
    fn write(&self, _: Projection, out: &mut Vec<u8>) {
        write::text(out, self);
    }
}

impl WriteAt for String {
    fn write(&self, _: Projection, out: &mut Vec<u8>) {
        write::text(out, self);
    }
}

/// Implements [`WriteAt`] for types that are the same at every revision, whose `Serialize` does not fail.
macro_rules! plain {
    ($($type:ty)*) => { $(
        impl WriteAt for $type {
            fn write(&self, _: Projection, out: &mut Vec<u8>) {
                _ = write::json(out, self);
            }
        }
    )* };
}

plain!(bool i64 u64 Id);

/// Implements `Serialize`, which writes everything, and `Deserialize`, which fails for an unexpected value, for types that
/// are objects or lists. `Deserialize` needs a deserializer that keeps JSON text: one of serde_json.
macro_rules! serde_impls {
    ($($type:ty),*) => { $(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::schema::write::serialize(self, crate::schema::Projection::Full, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = crate::schema::Json::deserialize(deserializer)?;
                crate::schema::read::read_text(json.as_str()).map_err(serde::de::Error::custom)
            }
        }
    )* };
}
pub(crate) use serde_impls;

/// Implements what writes and reads a type that is a string in every format, by its `as_str`.
macro_rules! text_impls {
    ($type:ty) => {
        impl crate::schema::WriteAt for $type {
            fn write(&self, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                self.as_str().write(view, out);
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = alloc::string::String::deserialize(deserializer)?;
                crate::schema::read::Read::from_text(text.into()).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_impls;
