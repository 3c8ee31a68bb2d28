//! A storage in files that only their owner can read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Storage, StorageFuture};
use crate::private_files::{check_private, lock, make_private, replace, sync};
use crate::runtime::{AnyRuntime, Runtime};

/// Maximum bytes of a value.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// End of the name of a file that is not written completely yet.
const NEW: &str = ".new";

/// Stores values in a folder, each in a file that is replaced atomically.
///
/// On Unix only their owner can access the folder (0700) and the files (0600); a folder that other users can access is
/// rejected. On other systems, the parent folder must keep other users out. Processes that use the same folder
/// synchronise by a file lock, which some network file systems lack. A value has at most 32 MiB.
#[derive(Clone, Debug)]
pub struct FileStorage {
    folder: PathBuf,
    runtime: AnyRuntime,
}

impl FileStorage {
    /// A storage in this folder, which is created when the first value is stored.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), runtime: AnyRuntime::default() }
    }

    /// Sets the runtime, on whose threads for blocking work files are read and written. Default:
    /// [`DefaultRuntime`](crate::DefaultRuntime).
    #[must_use]
    pub fn runtime(mut self, runtime: impl Runtime) -> Self {
        self.runtime = AnyRuntime::new(runtime);
        self
    }

    /// Changes a value, which no other process changes meanwhile: `change` gets the stored value, if there is one, and
    /// returns the new one beside its result.
    ///
    /// ```
    /// use mcp_hyper::host::FileStorage;
    ///
    /// async fn count(storage: &FileStorage) -> std::io::Result<usize> {
    ///     storage
    ///         .update("starts", |stored| {
    ///             let starts = stored.unwrap_or_default().len() + 1;
    ///             (vec![b'+'; starts], starts)
    ///         })
    ///         .await
    /// }
    /// ```
    ///
    /// # Errors
    /// If the store cannot be read or written.
    pub async fn update<T: Send + 'static>(
        &self,
        name: &str,
        change: impl FnOnce(Option<Vec<u8>>) -> (Vec<u8>, T) + Send + 'static,
    ) -> io::Result<T> {
        self.run(name, |folder, name| {
            make_private(folder)?;
            let _lock = lock(&folder.join(".lock"))?;
            let (value, result) = change(read(folder, name)?);
            write(folder, name, &value)?;
            sync(folder);
            Ok(result)
        })
        .await
    }

    fn run<'a, T: Send + 'static>(
        &'a self,
        name: &str,
        work: impl FnOnce(&Path, &str) -> io::Result<T> + Send + 'static,
    ) -> StorageFuture<'a, T> {
        let (folder, name) = (self.folder.clone(), name.to_owned());
        let working = self.runtime.blocking(move || {
            let place = |error: io::Error| {
                io::Error::new(error.kind(), format!("the stored values in {}: {error}", folder.display()))
            };
            check_name(&name).and_then(|()| work(&folder, &name)).map_err(place)
        });
        Box::pin(async { working.await? })
    }
}

impl Storage for FileStorage {
    fn get<'a>(&'a self, name: &'a str) -> StorageFuture<'a, Option<Vec<u8>>> {
        self.run(name, read)
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>) -> StorageFuture<'a, ()> {
        self.run(name, move |folder, name| {
            make_private(folder)?;
            let _lock = lock(&folder.join(".lock"))?;
            write(folder, name, &value)?;
            sync(folder);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> StorageFuture<'a, ()> {
        self.run(name, |folder, name| {
            make_private(folder)?;
            let _lock = lock(&folder.join(".lock"))?;
            match fs::remove_file(folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }
}

fn check_name(name: &str) -> io::Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=64).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of a value"))
}

fn read(folder: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let found = fs::metadata(folder).and_then(|_| {
        check_private(folder)?;
        File::open(folder.join(name))
    });
    let file = match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mut value = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut value)?;
    if value.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a value is too long"));
    }
    Ok(Some(value))
}

/// Writes a file atomically: readers find the old one or the new one, whole. The caller holds the lock.
fn write(folder: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}{NEW}"));
    // Of a writer that ended before the rename.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    replace(&folder.join(name), &new, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("mcp-storage-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[cfg(feature = "smol")]
    #[test]
    fn values_are_replaced_as_a_whole_and_removed() {
        let folder = Folder::new("values");
        let storage = FileStorage::in_folder(&folder.0);
        futures_lite::future::block_on(async {
            assert_eq!(storage.get("one").await.unwrap(), None);
            storage.put("one", b"long value".to_vec()).await.unwrap();
            storage.put("one", b"short".to_vec()).await.unwrap();
            assert_eq!(storage.get("one").await.unwrap().as_deref(), Some(b"short".as_slice()));
            storage.remove("one").await.unwrap();
            storage.remove("one").await.unwrap();
            assert_eq!(storage.get("one").await.unwrap(), None);
            for name in ["", "../x", "X", ".lock", "a/b", &"a".repeat(65)] {
                assert_eq!(storage.get(name).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
        });
    }

    #[cfg(all(unix, feature = "smol"))]
    #[test]
    fn values_are_readable_by_their_owner_alone() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let folder = Folder::new("modes");
        let storage = FileStorage::in_folder(&folder.0);
        futures_lite::future::block_on(async {
            storage.put("one", b"value".to_vec()).await.unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder.0), mode(&folder.0.join("one"))), (0o700, 0o600));
            // A link in place of a new file is not followed.
            let target = folder.0.join("target");
            fs::write(&target, "untouched").unwrap();
            symlink(&target, folder.0.join("one.new")).unwrap();
            storage.put("one", b"other".to_vec()).await.unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
            let refused = storage.get("one").await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        });
    }
}
