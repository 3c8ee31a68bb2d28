//! Values that a host stores between runs: lists, pins, eras and approvals.

mod file;
pub(super) mod record;
pub(super) mod saving;

use std::future::Future;
use std::io;
use std::pin::Pin;

pub use file::FileStorage;

/// The future of a [`Storage`] operation.
pub type StorageFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A store of named values, in which a host keeps the approvals of the user, and for each server its lists, the pins of
/// their definitions and its era. No value has a secret in it, unless a server puts one into its lists.
///
/// Names have at most 64 lower-case letters, digits and hyphens, none of which a server chooses. A value replaces the
/// one before it as a whole. A process that can write here can approve servers: keep it away from projects.
pub trait Storage: Send + Sync + 'static {
    /// Reads a value; `None` if it was not stored.
    ///
    /// # Errors
    /// If the store cannot be read.
    fn get<'a>(&'a self, name: &'a str) -> StorageFuture<'a, Option<Vec<u8>>>;

    /// Writes a value.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>) -> StorageFuture<'a, ()>;

    /// Removes a value, if there is one.
    ///
    /// # Errors
    /// If the store cannot be written.
    fn remove<'a>(&'a self, name: &'a str) -> StorageFuture<'a, ()>;
}
