//! A value that takes memory only once it is used.

use core::ops::{Deref, DerefMut};

use crate::prelude::*;

/// A type with an initial value that costs nothing to look at.
pub(crate) trait Initial: Sized + 'static {
    /// The initial value, shared by all that are still unused.
    const INITIAL: &'static Self;

    /// Creates an initial value of its own.
    fn initial() -> Self;
}

/// A value on the heap, allocated when it is first changed. Until then it reads as its initial value.
///
/// Most parts of a connection's state are never used, above all by the exchange of a single request.
#[derive(Debug)]
pub(crate) struct LazyBox<T>(Option<Box<T>>);

impl<T> LazyBox<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// The value if it was ever changed. Changing it through this reference allocates nothing.
    pub(crate) fn used_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Returns to the initial value, and frees the memory.
    pub(crate) fn reset(&mut self) {
        self.0 = None;
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Initial> Deref for LazyBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::INITIAL)
    }
}

impl<T: Initial> DerefMut for LazyBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::initial()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    impl Initial for Vec<u8> {
        const INITIAL: &'static Self = &Self::new();

        fn initial() -> Self {
            Self::new()
        }
    }

    #[test]
    fn lazy_box_allocates_when_it_is_first_changed() {
        let mut lazy = LazyBox::<Vec<u8>>::new();
        assert!(lazy.is_empty());
        assert!(lazy.used_mut().is_none());
        lazy.push(1);
        assert_eq!(*lazy, [1]);
        assert_eq!(lazy.used_mut().map(|value| value.len()), Some(1));
    }

    #[cfg(feature = "http")]
    #[test]
    fn lazy_box_frees_its_memory_when_it_is_reset() {
        let mut lazy = LazyBox::<Vec<u8>>::new();
        lazy.push(1);
        lazy.reset();
        assert!(lazy.is_empty());
        assert!(lazy.used_mut().is_none());
    }
}
