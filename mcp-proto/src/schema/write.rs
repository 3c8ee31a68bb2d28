//! Writing a value with the fields of one revision.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::revision::{Revision, Revisions};
use crate::rpc::Id;

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
/// has. [`Serialize`] of the same types writes everything.
pub trait WriteAt {
    /// Writes the part of the value that `view` selects.
    ///
    /// # Errors
    /// If the serializer fails.
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error>;

    /// Writes the value with the fields of `revision`.
    ///
    /// # Errors
    /// If the serializer fails.
    fn serialize_at<S: Serializer>(&self, revision: Revision, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(Projection::At(revision), serializer)
    }
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
        self.0.serialize_at(self.1, serializer)
    }
}

/// Like [`At`], for any [`Projection`].
pub(crate) struct Viewed<'a, T: ?Sized>(pub(crate) &'a T, pub(crate) Projection);

impl<T: WriteAt + ?Sized> Serialize for Viewed<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.write(self.1, serializer)
    }
}

impl<T: WriteAt + ?Sized> WriteAt for &T {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).write(view, serializer)
    }
}

impl<T: WriteAt + ?Sized> WriteAt for Box<T> {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).write(view, serializer)
    }
}

impl<T: WriteAt> WriteAt for Option<T> {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.write(view, serializer),
            None => serializer.serialize_unit(),
        }
    }
}

impl<T: WriteAt> WriteAt for [T] {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for item in self {
            seq.serialize_element(&Viewed(item, view))?;
        }
        seq.end()
    }
}

impl<T: WriteAt> WriteAt for Vec<T> {
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().write(view, serializer)
    }
}

/// Implements [`WriteAt`] for types that are the same at every revision.
macro_rules! plain {
    ($($type:ty)*) => { $(
        impl WriteAt for $type {
            fn write<S: Serializer>(&self, _: Projection, serializer: S) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        }
    )* };
}

plain!(str String bool i64 u64 Id);

/// Implements `Serialize`, which writes everything, and `Deserialize`, which fails for an unexpected value, for types that
/// are objects or lists. `Deserialize` needs a deserializer that keeps JSON text: one of serde_json.
macro_rules! serde_impls {
    ($($type:ty),*) => { $(
        $crate::schema::write::serialize_impl!($type);

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let json = $crate::schema::Json::deserialize(deserializer)?;
                $crate::schema::read::read_text(json.as_str()).map_err(serde::de::Error::custom)
            }
        }
    )* };
}
pub(crate) use serde_impls;

/// Implements `Serialize` and `Deserialize` for a type that is a string in every format.
macro_rules! text_impls {
    ($type:ty) => {
        $crate::schema::write::serialize_impl!($type);

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = alloc::string::String::deserialize(deserializer)?;
                $crate::schema::read::Read::from_text(text.into()).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_impls;

macro_rules! serialize_impl {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let full = $crate::schema::write::Projection::Full;
                $crate::schema::write::WriteAt::write(self, full, serializer)
            }
        }
    };
}
pub(crate) use serialize_impl;
