//! The `object!` macro declares an object of the protocol: its type, how it is read and how it is written.
//!
//! ```text
//! object! {
//!     /// Documentation of the type.
//!     pub struct Name {
//!         required {
//!             /// Documentation of the field.
//!             field: Type = "wireName";
//!         }
//!         optional {
//!             field: Option<Type> = "wireName" since V2025_06_18 until V2025_11_25;
//!         }
//!     }
//! }
//! ```
//!
//! Instead of `struct`, the keyword may be `params` (of a request or notification), `result`, `cacheable` (a result
//! that a client may cache) or `page` (a page of a list); these add the members that all types of their kind have.
//! `struct Name as "type" = "text"` has a field with a constant value; `struct Name made by f` names the constructor
//! `f` instead of `new`. After the wire name of a field may follow, in this order:
//!
//! - `since V` and `until V`: the first and the last revision with the field; it is not written at others.
//! - `null kept`: `null` is a value. Otherwise an optional field with the value `null` counts as absent.
//! - `type strict`: a value of the wrong type fails the whole object, because dropping the field would change its
//!   meaning.
//! - `check f`: `f(&value)` says whether the value is valid; an invalid value counts as one of the wrong type.
//! - `else f`, for a required field: `f()` is its value if it is absent or `null`.
//! - `if f`: `f(&value, view)` says whether the field is written.
//!
//! Reading is lenient: fields may come in any order; unknown fields, and optional fields of the wrong type, are kept in
//! `extra`. If a field occurs twice, the last occurrence of the right type counts.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt;

use super::containers::Extra;
use super::read::{Fields, Fit, Read, ReadResult, Reason};
use super::write::{Projection, WriteAt};
use crate::rpc::json_reader::NotJson;

/// A type made by [`object!`].
pub(crate) trait Object: Sized {
    /// Reads the object from its remaining fields.
    fn read_fields(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson>;

    /// Writes the type's own fields and unknown ones.
    fn write_own(&self, view: Projection, out: &mut Vec<u8>);

    /// Writes the fields that all params, or all results, have in common.
    fn write_envelope(&self, view: Projection, out: &mut Vec<u8>);
}

impl<T: Object> Object for Box<T> {
    fn read_fields(fields: Fields<'_, '_>) -> Result<Fit<Self>, NotJson> {
        Ok(T::read_fields(fields)?.map(Self::new))
    }

    fn write_own(&self, view: Projection, out: &mut Vec<u8>) {
        (**self).write_own(view, out);
    }

    fn write_envelope(&self, view: Projection, out: &mut Vec<u8>) {
        (**self).write_envelope(view, out);
    }
}

/// The type of an optional field.
pub(crate) trait Optional: Read + Default {
    /// Whether the field is left out when the object is written.
    fn is_absent(&self) -> bool;
}

impl<T: Read> Optional for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// A list: readers accept that it is missing, writers always send it.
impl<T: Read + WriteAt> Optional for Vec<T> {
    fn is_absent(&self) -> bool {
        false
    }
}

/// State of an object that is being read: leftover fields and the first error.
#[derive(Default)]
pub(crate) struct ReadState {
    pub(crate) extra: Extra,
    /// The first error that keeps the object from being read.
    error: Option<Reason>,
}

impl ReadState {
    pub(crate) fn required<T>(&mut self, slot: &mut Option<T>, name: &'static str, read: ReadResult<T>) {
        match read {
            Ok(value) => *slot = Some(value),
            Err(unexpected) => self.reject(name, format_args!("{unexpected}")),
        }
    }

    pub(crate) fn optional<T>(&mut self, slot: &mut T, name: &'static str, read: ReadResult<T>) {
        match read {
            Ok(value) => *slot = value,
            Err(unexpected) => self.extra.push(name, unexpected.json),
        }
    }

    pub(crate) fn strict<T>(&mut self, slot: &mut T, name: &'static str, read: ReadResult<T>) {
        match read {
            Ok(value) => *slot = value,
            Err(unexpected) => self.reject(name, format_args!("{unexpected}")),
        }
    }

    /// Checks the field with the constant value `expected`.
    pub(crate) fn tag(&mut self, name: &'static str, expected: &str, is_expected: bool) {
        if !is_expected {
            self.reject(name, format_args!("expected `{expected}`"));
        }
    }

    #[cold]
    fn reject(&mut self, name: &'static str, reason: fmt::Arguments<'_>) {
        self.error.get_or_insert_with(|| format!("`{name}`: {reason}").into());
    }

    /// The value of a required field.
    pub(crate) fn take<T>(&mut self, slot: Option<T>, name: &'static str) -> Option<T> {
        if slot.is_none() {
            self.error.get_or_insert_with(|| format!("`{name}` is missing").into());
        }
        slot
    }

    /// The reason why the object cannot be read.
    #[cold]
    pub(crate) fn into_reason(self) -> Reason {
        self.error.unwrap_or_default()
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.error.is_none()
    }
}

macro_rules! object {
    ($(#[$attr:meta])* pub struct $name:ident $(as $tag:literal = $value:literal)? $(made by $new:ident)? {
        required { $($required:tt)* } optional { $($optional:tt)* }
    }) => {
        object! {
            @build [$(#[$attr])*] $name [$($tag = $value)?] [$($new)?] { $($required)* } { $($optional)* } {}
        }
    };

    ($(#[$attr:meta])* pub params $name:ident $(as $tag:literal = $value:literal)? {
        required { $($required:tt)* } optional { $($optional:tt)* }
    }) => {
        object! { @build [$(#[$attr])*] $name [$($tag = $value)?] [] { $($required)* } { $($optional)* } {
            /// Metadata attached to the message.
            meta: $crate::schema::Meta = "_meta" type strict;
        } }

        object! { @envelope Params $name {} }
    };

    ($(#[$attr:meta])* pub result $name:ident {
        required { $($required:tt)* } optional { $($optional:tt)* }
    }) => {
        object! { @result [$(#[$attr])*] $name { $($required)* } { $($optional)* } {} {
            type HandlerOutput = Self;
        } }
    };

    ($(#[$attr:meta])* pub cacheable $name:ident {
        required { $($required:tt)* } optional { $($optional:tt)* }
    }) => {
        object! { @cacheable [$(#[$attr])*] $name Cached { $($required)* } { $($optional)* } }
    };

    ($(#[$attr:meta])* pub page $name:ident {
        required { $($required:tt)* } optional { $($optional:tt)* }
    }) => {
        object! { @cacheable [$(#[$attr])*] $name CachedPage { $($required)* } { $($optional)* } }
    };

    (@cacheable [$($attr:tt)*] $name:ident $output:ident { $($required:tt)* } { $($optional:tt)* }) => {
        object! { @result [$($attr)*] $name { $($required)* } { $($optional)* } {
            /// Time to live in milliseconds from receipt: how long the result may be cached.
            ttl_ms: Option<u64> = "ttlMs" since V2026_07_28;
            /// The audience of the cached result.
            cache_scope: Option<$crate::schema::CacheScope> = "cacheScope" since V2026_07_28;
        } {
            type HandlerOutput = $crate::schema::$output<Self>;

            fn cache_hint(&self) -> (Option<u64>, Option<$crate::schema::CacheScope>) {
                (self.ttl_ms, self.cache_scope)
            }
        } }

        impl $crate::schema::Cacheable for $name {
            fn set_ttl_ms(&mut self, ttl_ms: u64) {
                self.ttl_ms = Some(ttl_ms);
            }

            fn set_cache_scope(&mut self, scope: Option<$crate::schema::CacheScope>) {
                self.cache_scope = scope;
            }
        }
    };

    (@result [$($attr:tt)*] $name:ident { $($required:tt)* } { $($optional:tt)* } { $($cache:tt)* } { $($hint:item)* }) => {
        object! { @build [$($attr)*] $name [] [] { $($required)* } { $($optional)* } {
            /// Kind of the result; the sender sets it.
            result_type: Option<$crate::schema::ResultType> = "resultType" since V2026_07_28;
            $($cache)*
            /// Metadata attached to the message.
            meta: $crate::schema::Meta = "_meta";
        } }

        object! { @envelope ResultFields $name {
            fn result_type(&self) -> Option<&$crate::schema::ResultType> {
                self.result_type.as_ref()
            }

            fn has_field(&self, name: &str) -> bool {
                !Self::is_envelope(name) && (self.holds(name) || self.extra.contains(name))
            }

            $($hint)*
        } }
    };

    (@envelope $trait:ident $name:ident { $($item:item)* }) => {
        impl $crate::schema::$trait for $name {
            fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                $crate::schema::read::read_text(text)
            }

            fn meta(&self) -> &$crate::schema::Meta {
                &self.meta
            }

            fn meta_mut(&mut self) -> &mut $crate::schema::Meta {
                &mut self.meta
            }

            fn write_fields(&self, view: $crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                $crate::schema::object::Object::write_own(self, view, out);
            }

            $($item)*
        }
    };

    (@build [$($attr:tt)*] $name:ident [$($tag:literal = $value:literal)?] [$($new:ident)?]
        { $(
            $(#[$rattr:meta])* $rname:ident : $rty:ty = $rwire:literal $(check $rcheck:ident)?
            $(else $relse:ident)? ;
        )* }
        { $(
            $(#[$oattr:meta])* $oname:ident : $oty:ty = $owire:literal
            $(since $osince:ident)? $(until $ountil:ident)? $(null $onull:ident)? $(type $otype:ident)?
            $(check $ocheck:ident)? $(if $oif:ident)? ;
        )* }
        { $(
            $(#[$eattr:meta])* $ename:ident : $ety:ty = $ewire:literal
            $(since $esince:ident)? $(type $etype:ident)? ;
        )* }
    ) => {
        $($attr)*
        #[doc = object! { @how_to_create $name [$($new)?] [$( $rname, )*] }]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$rattr])* pub $rname: $rty, )*
            $( $(#[$oattr])* pub $oname: $oty, )*
            $( $(#[$eattr])* pub $ename: $ety, )*
            /// Unknown fields, and optional fields with unreadable values: written back verbatim.
            pub extra: $crate::schema::Extra,
        }

        impl $name {
            object! { @new [$($new)?] [$( $rname: $rty, )*] [$( $oname )*] [$( $ename )*] }

            /// Whether the type itself writes a field of this name, so that a leftover of the same name is dropped.
            #[allow(unused_variables)]
            fn holds(&self, name: &str) -> bool {
                match name {
                    $( $tag => true, )?
                    $( $rwire => true, )*
                    $( $owire => !$crate::schema::object::Optional::is_absent(&self.$oname), )*
                    $( $ewire => !$crate::schema::object::Optional::is_absent(&self.$ename), )*
                    _ => false,
                }
            }

            fn is_envelope(name: &str) -> bool {
                match name {
                    $( $ewire => true, )*
                    _ => false,
                }
            }
        }

        object! { @default $name { $($rname)* } }

        impl $crate::schema::object::Object for $name {
            #[allow(unused_imports, unused_mut, unused_variables)]
            fn read_fields(
                mut fields: $crate::schema::read::Fields<'_, '_>,
            ) -> Result<$crate::schema::read::Fit<Self>, $crate::rpc::json_reader::NotJson> {
                $( let mut $rname: Option<$rty> = None; )*
                $( let mut $oname: $oty = Default::default(); )*
                $( let mut $ename: $ety = Default::default(); )*
                let mut state = $crate::schema::object::ReadState::default();
                while let Some(name) = fields.name()? {
                    match &*name {
                        $( $tag => {
                            let is_expected = fields.is_text($value)?;
                            state.tag($tag, $value, is_expected);
                        } )?
                        $( $rwire => {
                            let read = object!(@required fields $rty [$($rcheck)?] [$($relse)?]);
                            state.required(&mut $rname, $rwire, read);
                        } )*
                        $( $owire => {
                            let read = object!(@read fields $oty [$($ocheck)?] [$($onull)?]);
                            object!(@place state $oname $owire read $($otype)?);
                        } )*
                        $( $ewire => {
                            let read = fields.value::<$ety>()?;
                            object!(@place state $ename $ewire read $($etype)?);
                        } )*
                        _ => {
                            let json = fields.json()?;
                            state.extra.push(name.into_owned(), json);
                        }
                    }
                }
                $( $( let $rname = $rname.or_else(|| Some($relse())); )? )*
                $( let $rname = state.take($rname, $rwire); )*
                match (state.is_valid(), $($rname,)*) {
                    (true, $(Some($rname),)*) => Ok(Ok(Self {
                        $($rname,)* $($oname,)* $($ename,)*
                        extra: state.extra,
                    })),
                    _ => Ok(Err(state.into_reason())),
                }
            }

            #[allow(unused_imports, unused_variables)]
            fn write_own(&self, view: $crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                use $crate::schema::object::Optional as _;
                use $crate::schema::write::{known_name, member};
                use $crate::schema::WriteAt as _;

                $( known_name(out, concat!("\"", $tag, "\":\"", $value, "\"")); )?
                $(
                    known_name(out, concat!("\"", $rwire, "\":"));
                    self.$rname.write(view, out);
                )*
                $(
                    if !self.$oname.is_absent()
                        && view.has(object!(@revisions $(since $osince)? $(until $ountil)?))
                        $( && $oif(&self.$oname, view) )?
                    {
                        known_name(out, concat!("\"", $owire, "\":"));
                        self.$oname.write(view, out);
                    }
                )*
                for (name, value) in &self.extra {
                    if !self.holds(name) && !Self::is_envelope(name) {
                        member(out, name, value, view);
                    }
                }
            }

            #[allow(unused_variables)]
            fn write_envelope(&self, view: $crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                $(
                    if !$crate::schema::object::Optional::is_absent(&self.$ename)
                        && view.has(object!(@revisions $(since $esince)?))
                    {
                        $crate::schema::write::known_name(out, concat!("\"", $ewire, "\":"));
                        $crate::schema::WriteAt::write(&self.$ename, view, out);
                    }
                )*
                for (name, value) in &self.extra {
                    if Self::is_envelope(name) && !self.holds(name) {
                        $crate::schema::write::member(out, name, value, view);
                    }
                }
            }
        }

        impl $crate::schema::read::Read for $name {
            const EXPECTED: &'static str = "an object";

            fn from_object(
                fields: $crate::schema::read::Fields<'_, '_>,
            ) -> Result<$crate::schema::read::Fit<Self>, $crate::rpc::json_reader::NotJson> {
                $crate::schema::object::Object::read_fields(fields)
            }
        }

        impl $crate::schema::WriteAt for $name {
            fn write(&self, view: $crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                use $crate::schema::object::Object as _;

                out.push(b'{');
                self.write_own(view, out);
                self.write_envelope(view, out);
                out.push(b'}');
            }
        }

        $crate::schema::write::serde_impls!($name);
    };

    // The last paragraph of the type's documentation: what to write instead of a struct literal with every field.
    (@how_to_create $name:ident [] [$($rname:ident,)*]) => {
        concat!(
            "\n\nCreate it with [`", stringify!($name), "::new(", stringify!($($rname),*), ")`](Self::new); set optional \
             fields afterwards, or in a struct literal that ends with that call behind `..`."
        )
    };
    // A type with a constructor of another name documents how to create it.
    (@how_to_create $name:ident [$new:ident] $rnames:tt) => { "" };

    (@new [] $($rest:tt)*) => { object! { @new [new] $($rest)* } };
    (@new [$new:ident] [$( $rname:ident : $rty:ty, )*] [$( $oname:ident )*] [$( $ename:ident )*]) => {
        /// Creates the object with its required fields only.
        #[must_use]
        pub fn $new($($rname: impl Into<$rty>),*) -> Self {
            Self {
                $( $rname: $rname.into(), )*
                $( $oname: Default::default(), )*
                $( $ename: Default::default(), )*
                extra: $crate::schema::Extra::new(),
            }
        }
    };

    (@default $name:ident {}) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    (@default $name:ident { $($required:ident)+ }) => {};

    (@required $fields:ident $ty:ty [$check:ident] [$else:ident]) => {
        $fields
            .checked::<Option<$ty>, _>(|value| value.as_ref().map_or(Ok(()), $check))?
            .map(|value| value.unwrap_or_else($else))
    };
    (@required $fields:ident $ty:ty [] []) => { $fields.value::<$ty>()? };
    (@required $fields:ident $ty:ty [] [$else:ident]) => {
        $fields.value::<Option<$ty>>()?.map(|value| value.unwrap_or_else($else))
    };

    (@read $fields:ident $ty:ty [$check:ident] []) => { $fields.checked::<$ty, _>($check)? };
    (@read $fields:ident $ty:ty [] []) => { $fields.value::<$ty>()? };
    (@read $fields:ident $ty:ty [] [kept]) => { $fields.value()?.map(Some) };

    (@place $state:ident $slot:ident $wire:literal $read:ident) => { $state.optional(&mut $slot, $wire, $read) };
    (@place $state:ident $slot:ident $wire:literal $read:ident strict) => { $state.strict(&mut $slot, $wire, $read) };

    (@revisions) => { $crate::schema::Revisions::ALL };
    (@revisions since $since:ident) => {
        $crate::schema::Revisions::since($crate::schema::Revision::$since)
    };
    (@revisions until $until:ident) => {
        $crate::schema::Revisions::until($crate::schema::Revision::$until)
    };
    (@revisions since $since:ident until $until:ident) => {
        $crate::schema::Revisions {
            first: $crate::schema::Revision::$since,
            last: $crate::schema::Revision::$until,
        }
    };
}
pub(crate) use object;

/// Declares a closed set of names: a plain enum that is a string on the wire. Reading an unknown name gives an `UnexpectedJson`.
macro_rules! names {
    ($(#[$attr:meta])* pub $(($vis:ident))? enum $name:ident {
        $( $(#[$vattr:meta])* $variant:ident = $wire:literal, )*
    }) => {
        $(#[$attr])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub $(($vis))? enum $name {
            $( $(#[$vattr])* $variant, )*
        }

        impl $name {
            /// The name on the wire.
            pub $(($vis))? const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $wire, )*
                }
            }

            /// Parses a name on the wire.
            pub $(($vis))? fn parse(name: &str) -> Option<Self> {
                match name {
                    $( $wire => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::schema::read::Read for $name {
            const EXPECTED: &'static str = concat!("one of", $(" `", $wire, "`"),*);

            fn from_text(name: alloc::borrow::Cow<'_, str>) -> $crate::schema::read::Fit<Self> {
                Self::parse(&name).map_or_else(|| $crate::schema::read::expected(Self::EXPECTED), Ok)
            }
        }

        $crate::schema::write::text_impls!($name);
    };
}
pub(crate) use names;

/// Implements `From` for the variants of an enum that hold one value.
macro_rules! from_variants {
    ($name:ident { $($variant:ident($type:ty)),* $(,)? }) => { $(
        impl From<$type> for $name {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )* };
}
pub(crate) use from_variants;
