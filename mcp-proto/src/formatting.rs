//! Macros for this crate and its adapters: `Display` and `Debug` from tables of texts and of fields, configurations, and
//! the setters of options.

/// Implements `Display` by a text as of `format!`: one for each variant of an enum, or one for a struct.
///
/// A variant whose text needs code has a closure in its place: `Tried(errors) => |f| { write_list(f, errors) };`.
#[doc(hidden)]
#[macro_export]
macro_rules! display_text {
    ($type:ident: $(
        $(#[$attribute:meta])*
        $variant:ident $(($($inner:pat),*))? $({ $($fields:tt)* })? $(if $guard:expr)? =>
            $(|$formatter:ident| $code:block)? $($text:literal $(, $argument:expr)*)?;
    )+) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                match self { $(
                    $(#[$attribute])*
                    Self::$variant $(($($inner),*))? $({ $($fields)* })? $(if $guard)? => {
                        $(::core::write!(f, $text $(, $argument)*))?
                        $({ let $formatter = f; $code })?
                    }
                )+ }
            }
        }
    };
    ($type:ident $(($($inner:pat),*))? $({ $($field:ident),* })? => $text:literal $(, $argument:expr)*) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $(let Self($($inner),*) = self;)?
                $(let Self { $($field,)* .. } = self;)?
                ::core::write!(f, $text $(, $argument)*)
            }
        }
    };
}

/// Implements `Display`, as [`display_text!`] does, and the trait of errors, without a source.
#[doc(hidden)]
#[macro_export]
macro_rules! error_text {
    ($type:ident $($table:tt)*) => {
        $crate::display_text! { $type $($table)* }

        impl ::core::error::Error for $type {}
    };
}

/// Implements `Debug` with the listed fields alone: one that is not listed may be secret, or has nothing to show.
///
/// `[H: Mode] Server<H> { router }` shows a field; `Handle(self) { closing = self.is_closing() }` shows a value;
/// `Key => "Key(..)"` is all that is shown, as [`display_text!`] writes a struct.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    (@value $this:ident $field:ident) => { &$this.$field };
    (@value $this:ident $field:ident $value:expr) => { &$value };
    ($([$($generics:tt)*])? $type:ident $(<$($argument:tt),*>)? { $($fields:tt)* }) => {
        $crate::debug_fields! { $([$($generics)*])? $type $(<$($argument),*>)? (self) { $($fields)* } }
    };
    ($([$($generics:tt)*])? $type:ident $(<$($argument:tt),*>)? ($this:ident) {
        $($field:ident $(= $value:expr)?),* $(,)?
    }) => {
        impl $(<$($generics)*>)? ::core::fmt::Debug for $type $(<$($argument),*>)? {
            fn fmt(&$this, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(::core::stringify!($type))
                    $(.field(
                        ::core::stringify!($field),
                        $crate::debug_fields!(@value $this $field $($value)?),
                    ))*
                    .finish_non_exhaustive()
            }
        }
    };
    ($type:ident $(($($inner:pat),*))? => $text:literal $(, $argument:expr)*) => {
        impl ::core::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $(let Self($($inner),*) = self;)?
                ::core::write!(f, $text $(, $argument)*)
            }
        }
    };
}

/// Methods that take a value, change it, and return it. `self` is the value; a body is one statement.
///
/// `pub fn path(self, path: &str) { self.path = path.into() }`
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($this:ident $(, $argument:ident: $type:ty)*) { $change:expr }
    )+) => { $(
        $(#[$attribute])*
        $visibility fn $name(mut $this $(, $argument: $type)*) -> Self {
            $change;
            $this
        }
    )+ };
}

/// A configuration, with the default beside each field.
///
/// With the head of a constructor after it, such as `pub fn new(url: &str);`, it has that one, and the defaults may name
/// the arguments. Without, it implements `Default`.
macro_rules! config {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($(#[$field_attribute:meta])*
                $visibility:vis $field:ident: $type:ty = $default:expr $(; only with $feature:literal)?,)+
        }
        $($constructor:tt)*
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$field_attribute])* $(#[cfg(feature = $feature)])? $visibility $field: $type,)+
        }

        config! { @$name { $($(#[cfg(feature = $feature)])? $field: $default,)+ } $($constructor)* }
    };
    (@$name:ident $fields:tt) => {
        impl Default for $name {
            fn default() -> Self {
                Self $fields
            }
        }
    };
    (@$name:ident $fields:tt $(#[$attribute:meta])* pub fn $new:ident($($argument:ident: $type:ty),+);) => {
        impl $name {
            $(#[$attribute])*
            pub fn $new($($argument: $type),+) -> Self {
                Self $fields
            }
        }
    };
}
