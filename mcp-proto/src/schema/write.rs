//! Writing a value as one revision knows it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::revision::{Revision, Revisions};
use crate::rpc::Id;

/// Which part of a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All of it, so that a round trip loses nothing.
    Full,
    /// What a revision knows, and unknown fields as they came.
    At(Revision),
}

impl Projection {
    /// Whether something that only `revisions` have is written.
    pub const fn has(self, revisions: Revisions) -> bool {
        match self {
            Self::Full => true,
            Self::At(revision) => revisions.contains(revision),
        }
    }

    /// Whether something that came with `first` is written.
    pub const fn since(self, first: Revision) -> bool {
        self.has(Revisions::since(first))
    }
}

impl From<Revision> for Projection {
    fn from(revision: Revision) -> Self {
        Self::At(revision)
    }
}

/// A value that is written differently at different revisions.
///
/// What a revision does not have is left out, or turned into the nearest that it has. [`Serialize`] of the same
/// types writes everything.
pub trait WriteAt {
    /// Writes the part that `view` asks for.
    ///
    /// # Errors
    /// The serializer's.
    fn write<S: Serializer>(&self, view: Projection, serializer: S) -> Result<S::Ok, S::Error>;

    /// Writes the value as `revision` knows it.
    ///
    /// # Errors
    /// The serializer's.
    fn serialize_at<S: Serializer>(&self, revision: Revision, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(Projection::At(revision), serializer)
    }
}

/// Serializes a value as a revision knows it.
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

/// [`At`], or everything.
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

/// The same at every revision.
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

/// `Serialize` writes everything, `Deserialize` refuses what does not fit.
macro_rules! serde_impls {
    ($($type:ty),*) => { $(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::schema::write::WriteAt::write(self, $crate::schema::write::Projection::Full, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <Self as $crate::schema::read::Read>::read(deserializer)?.map_err(serde::de::Error::custom)
            }
        }
    )* };
}
pub(crate) use serde_impls;
