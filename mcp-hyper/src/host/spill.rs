//! Files for results that are too long for a model.

use std::fs::{self, DirEntry};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mcp_proto::host::tools::Spill;

use crate::private_files::{check_private, lock, make_private, private_file};

/// Where results go that are too long for a model, and for how long.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_hyper::host::{HostOptions, SpillFolder};
///
/// let mut folder = SpillFolder::new("/home/ann/.cache/my-agent/results");
/// folder.expiry = Duration::from_secs(3600);
/// let options = HostOptions::new("my-agent", "1.0.0").spill_folder(folder);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpillFolder {
    /// The folder, which is created for the first file. Only its owner can access it (0700) and its files (0600); a
    /// folder that other users can access is rejected.
    pub path: PathBuf,
    /// How many bytes the files may have together. The oldest are removed for new ones. Default 256 MiB.
    pub quota: u64,
    /// How old a file may become. Older ones are removed when another is written. Default one day.
    pub expiry: Duration,
}

impl SpillFolder {
    /// A folder with the default limits. Nothing else may be in it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), quota: 256 * 1024 * 1024, expiry: Duration::from_secs(24 * 3600) }
    }

    /// Writes files, each under a new name; returns their paths, or why they could not be written.
    pub(super) fn write_all(&self, spills: Vec<Spill>) -> Vec<Result<String, String>> {
        let prepared = make_private(&self.path).and_then(|()| lock(&self.path.join(".lock")));
        spills
            .into_iter()
            .map(|spill| {
                let _lock = prepared.as_ref().map_err(ToString::to_string)?;
                self.write(&spill).map_err(|error| error.to_string())
            })
            .collect()
    }

    /// Writes a file under a new name. The caller holds the lock.
    fn write(&self, spill: &Spill) -> io::Result<String> {
        self.make_room(spill.contents.len() as u64)?;
        let random = getrandom::u64().map_err(|error| io::Error::other(error.to_string()))?;
        let path = self.path.join(format!("{random:016x}-{}", spill.file_name));
        let shown = path.to_str().ok_or_else(|| io::Error::other("the folder has a name that is no text"))?;
        let mut file = private_file().create_new(true).open(&path)?;
        if let Err(error) = file.write_all(&spill.contents) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok(shown.to_owned())
    }

    /// Removes files that are too old, then the oldest, until so many bytes fit.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.quota {
            return Err(io::Error::other("it is longer than all files together may be"));
        }
        check_private(&self.path)?;
        let now = SystemTime::now();
        let mut files: Vec<(SystemTime, u64, PathBuf)> =
            fs::read_dir(&self.path)?.flatten().filter_map(|entry| describe(&entry)).collect();
        files.sort_unstable();
        let mut total: u64 = files.iter().map(|(_, length, _)| *length).fold(0, u64::saturating_add);
        for (modified, length, path) in files {
            let age = now.duration_since(modified).unwrap_or_default();
            if age > self.expiry || total.saturating_add(bytes) > self.quota {
                fs::remove_file(path)?;
                total = total.saturating_sub(length);
            }
        }
        Ok(())
    }
}

/// Age, length and path of a file of the host.
fn describe(entry: &DirEntry) -> Option<(SystemTime, u64, PathBuf)> {
    let path = entry.path();
    let name = Path::new(&path).file_name()?.to_str()?.to_owned();
    let metadata = entry.metadata().ok()?;
    let is_own = metadata.is_file() && name.split_once('-').is_some_and(|(random, _)| random.len() == 16);
    is_own.then_some((metadata.modified().ok()?, metadata.len(), path))
}
