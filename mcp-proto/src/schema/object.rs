//! The `object!` macro declares objects of the protocol: the type of each, how it is read and how it is written.
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
//! Instead of `struct`, the keyword may be `params` (of a request or notification), `result`, `called` (the result of a
//! tool), `cacheable` (a result that a client may cache), `page` (a page of a list), `listed` (an item of a list with a name), `content` (a block of
//! content) or `field` (of a form); these add the members that all types of their kind have.
//! Either block may be missing. `struct Name as "type" = "text"` has a field with a constant value; `struct Name made by
//! f` names the constructor `f` instead of `new`. After the wire name of a field may follow, in this order:
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

use core::fmt;

use super::read::{Fields, Fit, Read, ReadResult, Reason};
use super::{Extra, WriteAt};
use crate::prelude::*;
use crate::rpc::json_reader::NotJson;

/// A type made by [`object!`].
pub(crate) trait Object {}

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

    /// The first error of an object without the required field `name`.
    #[cold]
    pub(crate) fn missing<T>(self, name: &'static str) -> Fit<T> {
        Err(self.error.unwrap_or_else(|| format!("`{name}` is missing").into()))
    }

    /// Makes the object with its leftover fields, unless there was an error.
    pub(crate) fn finish<T>(self, make: impl FnOnce(Extra) -> T) -> Fit<T> {
        match self.error {
            None => Ok(make(self.extra)),
            Some(error) => Err(error),
        }
    }
}

macro_rules! object {
    ($(
        $(#[$attr:meta])* pub $kind:ident $name:ident $(as $tag:literal = $value:literal)? $(made by $new:ident)? {
            $(required { $($required:tt)* })?
            $(optional { $($optional:tt)* })?
        }
    )+) => { $(
        object! {
            @$kind $name ([$(#[$attr])*] [$($tag = $value)?] [$($new)?])
            { $($($required)*)? } { $($($optional)*)? }
        }
    )+ };

    (@struct $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @build $name $head $required $optional {} }
    };

    (@field $name:ident $head:tt $required:tt { $($optional:tt)* }) => {
        object! { @build $name $head $required {
            /// The label of the field.
            title: Option<String> = "title";
            /// Description of the field.
            description: Option<String> = "description";
            $($optional)*
        } {} }
    };

    (@content $name:ident $head:tt $required:tt {}) => {
        object! { @build $name $head $required {
            /// Intended audience, priority and time of the last change.
            annotations: Option<Box<Annotations>> = "annotations";
            /// Metadata attached to the content.
            meta: crate::schema::Meta = "_meta" since V2025_06_18;
        } {} }
    };

    (@listed $name:ident $head:tt $required:tt { $($optional:tt)* }) => {
        object! { @build $name $head $required {
            /// Human-readable title; see [`display_name`](Self::display_name).
            title: Option<String> = "title" since V2025_06_18;
            /// Description for the model.
            description: Option<String> = "description";
            /// Icons to display.
            icons: Option<Vec<crate::schema::Icon>> = "icons" since V2025_11_25;
            $($optional)*
            /// Metadata attached to it.
            meta: crate::schema::Meta = "_meta" since V2025_06_18;
        } {} }

        crate::schema::object::display_names!($name);
    };

    (@params $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @build $name $head $required $optional {
            /// Metadata attached to the message.
            meta: crate::schema::Meta = "_meta" type strict;
        } }

        object! { @envelope Params $name {
            fn from_raw(raw: &crate::rpc::Raw) -> Result<Self, serde_json::Error> {
                crate::schema::read::read_raw(raw)
            }

            fn may_have_field(&self, name: &str) -> bool {
                self.holds(name) || self.extra.contains(name)
            }
        } }
    };

    (@result $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @result $name $head $required $optional {} {
            type HandlerOutput = Self;
        } }
    };

    (@called $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @result $name $head $required $optional {} {
            type HandlerOutput = Self;

            fn may_embed_resource(&self) -> bool {
                let may_embed = |block: &ContentBlock| matches!(block, ContentBlock::Resource(_) | ContentBlock::Unknown(_));
                self.content.iter().any(may_embed)
            }
        } }
    };

    (@cacheable $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @cached Cached $name $head $required $optional }
    };

    (@page $name:ident $head:tt $required:tt { $($optional:tt)* }) => {
        object! { @cached CachedPage $name $head $required {
            /// Cursor of the next page; absent on the last page. The empty string is a valid cursor.
            next_cursor: Option<alloc::string::String> = "nextCursor";
            $($optional)*
        } }
    };

    (@cached $output:ident $name:ident $head:tt $required:tt $optional:tt) => {
        object! { @result $name $head $required $optional {
            /// Time to live in milliseconds from receipt: how long the result may be cached.
            ttl_ms: Option<u64> = "ttlMs" since V2026_07_28;
            /// The audience of the cached result.
            cache_scope: Option<crate::schema::CacheScope> = "cacheScope" since V2026_07_28;
        } {
            type HandlerOutput = crate::schema::$output<Self>;

            fn cache_hint(&self) -> (Option<u64>, Option<crate::schema::CacheScope>) {
                (self.ttl_ms, self.cache_scope)
            }
        } }

        impl crate::schema::Cacheable for $name {
            fn set_ttl_ms(&mut self, ttl_ms: u64) {
                self.ttl_ms = Some(ttl_ms);
            }

            fn set_cache_scope(&mut self, scope: Option<crate::schema::CacheScope>) {
                self.cache_scope = scope;
            }
        }
    };

    (@result $name:ident $head:tt $required:tt $optional:tt { $($cache:tt)* } { $($hint:item)* }) => {
        object! { @build $name $head $required $optional {
            /// Kind of the result; the sender sets it.
            result_type: Option<crate::schema::ResultType> = "resultType" since V2026_07_28;
            $($cache)*
            /// Metadata attached to the message.
            meta: crate::schema::Meta = "_meta";
        } }

        object! { @envelope ResultFields $name {
            fn result_type(&self) -> Option<&crate::schema::ResultType> {
                self.result_type.as_ref()
            }

            fn has_field(&self, name: &str) -> bool {
                !Self::is_envelope(name) && (self.holds(name) || self.extra.contains(name))
            }

            $($hint)*
        } }
    };

    (@envelope $trait:ident $name:ident { $($item:item)* }) => {
        impl crate::schema::$trait for $name {
            fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                crate::schema::read::read_text(text)
            }

            fn meta(&self) -> &crate::schema::Meta {
                &self.meta
            }

            fn meta_mut(&mut self) -> &mut crate::schema::Meta {
                &mut self.meta
            }

            fn write_fields(&self, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                self.write_own(view, out);
            }

            $($item)*
        }
    };

    (@build $name:ident $head:tt $required:tt { $($optional:tt)* } { $($envelope:tt)* }) => {
        object! { @type $name $head $required { $($optional)* $($envelope)* } }
        object! { @write $name $head $required { $($optional)* } { $($envelope)* } }
    };

    (@type $name:ident ([$($attr:tt)*] [$($tag:literal = $value:literal)?] [$($new:ident)?])
        { $(
            $(#[$rattr:meta])* $rname:ident : $rty:ty = $rwire:literal $(check $rcheck:ident)? $(else $relse:ident)? ;
        )* }
        { $(
            $(#[$oattr:meta])* $oname:ident : $oty:ty = $owire:literal
            $(since $osince:ident)? $(until $ountil:ident)? $(null $onull:ident)? $(type $otype:ident)?
            $(check $ocheck:ident)? $(if $oif:ident)? ;
        )* }
    ) => {
        $($attr)*
        #[doc = object! { @how_to_create $name [$($new)?] [$( $rname, )*] }]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[$rattr])* pub $rname: $rty, )*
            $( $(#[$oattr])* pub $oname: $oty, )*
            /// Unknown fields, and optional fields with unreadable values: written back verbatim.
            pub extra: crate::schema::Extra,
        }

        impl $name {
            object! { @new [$($new)?] [$( $rname: $rty, )*] [$( $oname )*] }

            /// Whether the type itself writes a field of this name, so that a leftover of the same name is dropped.
            #[allow(unused_variables)]
            fn holds(&self, name: &str) -> bool {
                match name {
                    $( $tag => true, )?
                    $( $rwire => true, )*
                    $( $owire => !crate::schema::object::Optional::is_absent(&self.$oname), )*
                    _ => false,
                }
            }
        }

        object! { @default $name { $($rname)* } }

        impl crate::schema::object::Object for $name {}

        impl crate::schema::read::Read for $name {
            const EXPECTED: &'static str = "an object";

            #[allow(unused_mut, unused_variables)]
            fn from_object(
                mut fields: crate::schema::read::Fields<'_, '_>,
            ) -> Result<crate::schema::read::Fit<Self>, crate::rpc::json_reader::NotJson> {
                $( let mut $rname: Option<$rty> = None; )*
                $( let mut $oname: $oty = Default::default(); )*
                let mut state = crate::schema::object::ReadState::default();
                while let Some(name) = fields.name()? {
                    match &*name {
                        $( $tag => {
                            let is_expected = fields.is_text($value)?;
                            state.tag($tag, $value, is_expected);
                        } )?
                        $( $rwire => {
                            let read = object!(@read fields $rty [$($rcheck)?] [$(else $relse)?]);
                            state.strict(&mut $rname, $rwire, read.map(Some));
                        } )*
                        $( $owire => {
                            let read = object!(@read fields $oty [$($ocheck)?] [$(null $onull)?]);
                            object!(@place state $oname $owire read $($otype)?);
                        } )*
                        _ => {
                            let json = fields.json()?;
                            state.extra.push(name.into_owned(), json);
                        }
                    }
                }
                $(
                    let Some($rname) = $rname $(.or_else(|| Some($relse())))? else {
                        return Ok(state.missing($rwire));
                    };
                )*
                Ok(state.finish(|extra| Self { $($rname,)* $($oname,)* extra }))
            }
        }

        crate::schema::write::serde_impls!($name);
    };

    (@write $name:ident ([$($attr:tt)*] [$($tag:literal = $value:literal)?] $new:tt)
        { $( $(#[$rattr:meta])* $rname:ident : $rty:ty = $rwire:literal $(check $rcheck:ident)? $(else $relse:ident)? ; )* }
        $optional:tt $envelope:tt
    ) => {
        impl $name {
            /// Writes the type's own fields and unknown ones.
            #[allow(unused_variables)]
            fn write_own(&self, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                $( crate::schema::write::known_name(out, concat!("\"", $tag, "\":\"", $value, "\"")); )?
                $(
                    crate::schema::write::known_name(out, concat!("\"", $rwire, "\":"));
                    crate::schema::WriteAt::write(&self.$rname, view, out);
                )*
                object! { @optional self view out $optional }
                self.write_extra(false, view, out);
            }

            /// Writes the unknown fields with the names of fields that all params, or all results, have; or the others.
            fn write_extra(&self, envelope: bool, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                for (name, value) in &self.extra {
                    if Self::is_envelope(name) == envelope && !self.holds(name) {
                        crate::schema::write::member(out, name, value, view);
                    }
                }
            }

            object! { @is_envelope $envelope }
        }

        impl crate::schema::WriteAt for $name {
            fn write(&self, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                out.push(b'{');
                self.write_own(view, out);
                object! { @optional self view out $envelope }
                self.write_extra(true, view, out);
                out.push(b'}');
            }
        }
    };

    (@optional $self:ident $view:ident $out:ident { $(
        $(#[$attr:meta])* $name:ident : $ty:ty = $wire:literal
        $(since $since:ident)? $(until $until:ident)? $(null $null:ident)? $(type $type:ident)?
        $(check $check:ident)? $(if $if:ident)? ;
    )* }) => { $(
        if !crate::schema::object::Optional::is_absent(&$self.$name)
            && $view.has(object!(@revisions $(since $since)? $(until $until)?))
            $( && $if(&$self.$name, $view) )?
        {
            crate::schema::write::known_name($out, concat!("\"", $wire, "\":"));
            crate::schema::WriteAt::write(&$self.$name, $view, $out);
        }
    )* };

    (@is_envelope { $( $(#[$attr:meta])* $name:ident : $ty:ty = $wire:literal $(since $since:ident)? $(type $type:ident)? ; )* }) => {
        /// Whether all params, or all results, have a field of this name.
        fn is_envelope(name: &str) -> bool {
            match name {
                $( $wire => true, )*
                _ => false,
            }
        }
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
    (@new [$new:ident] [$( $rname:ident : $rty:ty, )*] [$( $oname:ident )*]) => {
        /// Creates the object with its required fields only.
        #[must_use]
        pub fn $new($($rname: impl Into<$rty>),*) -> Self {
            Self {
                $( $rname: $rname.into(), )*
                $( $oname: Default::default(), )*
                extra: crate::schema::Extra::new(),
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

    (@read $fields:ident $ty:ty [] []) => { $fields.value::<$ty>()? };
    (@read $fields:ident $ty:ty [$check:ident] []) => { $fields.checked::<$ty, _>($check)? };
    (@read $fields:ident $ty:ty [] [null kept]) => { $fields.value()?.map(Some) };
    (@read $fields:ident $ty:ty [$check:ident] [else $else:ident]) => {
        $fields
            .checked::<Option<$ty>, _>(|value| value.as_ref().map_or(Ok(()), $check))?
            .map(|value| value.unwrap_or_else($else))
    };

    (@place $state:ident $slot:ident $wire:literal $read:ident) => { $state.optional(&mut $slot, $wire, $read) };
    (@place $state:ident $slot:ident $wire:literal $read:ident strict) => { $state.strict(&mut $slot, $wire, $read) };

    (@revisions) => { crate::schema::Revisions::ALL };
    (@revisions since $since:ident) => {
        crate::schema::Revisions::since(crate::schema::Revision::$since)
    };
    (@revisions until $until:ident) => {
        crate::schema::Revisions::until(crate::schema::Revision::$until)
    };
    (@revisions since $since:ident until $until:ident) => {
        crate::schema::Revisions {
            first: crate::schema::Revision::$since,
            last: crate::schema::Revision::$until,
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
        #[non_exhaustive]
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

        impl crate::schema::read::Read for $name {
            const EXPECTED: &'static str = concat!("one of", $(" `", $wire, "`"),*);

            fn from_text(name: alloc::borrow::Cow<'_, str>) -> crate::schema::read::Fit<Self> {
                Self::parse(&name).map_or_else(|| crate::schema::read::expected(Self::EXPECTED), Ok)
            }
        }

        crate::schema::write::text_impls!($name);
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

/// Reads an object as a variant of an enum.
pub(crate) fn read_variant<T: Read, E>(
    fields: Fields<'_, '_>,
    variant: fn(T) -> E,
) -> Result<Fit<E>, NotJson> {
    Ok(T::from_object(fields)?.map(variant))
}

/// Declares an enum of objects: how one is read, and that a variant is written as its value. Behind `since`, other
/// revisions receive what the value's `stand_in` returns. With `or Unknown`, an object that cannot be read is kept.
macro_rules! union {
    ($(#[$attr:meta])* pub enum $name:ident $(or $unknown:ident)? {
        $( $(#[$vattr:meta])* $variant:ident($type:ty) $(since $since:ident)?, )*
    } read |$fields:ident| $read:expr) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum $name {
            $( $(#[$vattr])* $variant($type), )*
            $(
                /// A value of unknown kind, or an invalid value of a known kind: written back verbatim.
                $unknown(crate::schema::Json),
            )?
        }

        crate::schema::object::from_variants!($name { $( $variant($type), )* });

        impl crate::schema::read::Read for $name {
            const EXPECTED: &'static str = "an object";

            $(
                const LIST_MAY_BE_NULL: bool = true;

                //= C9.11 "unknown content types do not break the result"
                fn or_keep(
                    unexpected: crate::schema::read::UnexpectedJson,
                ) -> crate::schema::read::ReadResult<Self> {
                    Ok(Self::$unknown(unexpected.json))
                }
            )?

            #[allow(unused_mut)]
            fn from_object(
                mut $fields: crate::schema::read::Fields<'_, '_>,
            ) -> Result<crate::schema::read::Fit<Self>, crate::rpc::json_reader::NotJson> {
                $read
            }
        }

        impl crate::schema::WriteAt for $name {
            fn write(&self, view: crate::schema::Projection, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    $(
                        $(
                            Self::$variant(value) if !view.since(crate::schema::Revision::$since) => {
                                value.stand_in().write(view, out);
                            }
                        )?
                        Self::$variant(value) => value.write(view, out),
                    )*
                    $( Self::$unknown(json) => json.write(view, out), )?
                }
            }
        }

        crate::schema::write::serde_impls!($name);
    };
}
pub(crate) use union;

/// Declares a [`union!`] whose variants have names on the wire, by which `chosen` finds the variant of an object.
macro_rules! tagged {
    ($(#[$attr:meta])* pub enum $name:ident as $tag:ident {
        $( $(#[$vattr:meta])* $variant:ident($type:ty) = $wire:literal $(since $since:ident)?, )*
    } chosen |$fields:ident| $chosen:expr) => {
        crate::schema::object::names! {
            #[allow(missing_docs)]
            pub(crate) enum $tag { $( $variant = $wire, )* }
        }

        crate::schema::object::union! {
            $(#[$attr])*
            pub enum $name or Unknown {
                $( $(#[$vattr])* $variant($type) $(since $since)?, )*
            } read |$fields| match $chosen {
                $( Some($tag::$variant) => crate::schema::object::read_variant($fields, Self::$variant), )*
                None => Ok(crate::schema::read::expected(Self::EXPECTED)),
            }
        }
    };
}
pub(crate) use tagged;

/// Implements `display_name` for types with a name and an optional title.
macro_rules! display_names {
    ($($name:ident),*) => { $(
        impl $name {
            /// Name to display: the title, or the name if there is no title.
            pub fn display_name(&self) -> &str {
                self.title.as_deref().unwrap_or(&self.name)
            }
        }
    )* };
}
pub(crate) use display_names;
