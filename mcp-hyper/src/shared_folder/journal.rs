//! A journal that several processes write: a file of entries, one a line, from which each makes the same table.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::private_files::{lock, make_private, private_file, random, replace, sync};

/// The size in bytes below which a journal is not worth rewriting.
pub(super) const LEAST_REWRITTEN: u64 = 1024 * 1024;

/// A table that follows from the entries of a journal.
pub(super) trait Table: Default {
    /// The first words of its journal.
    const HEADING: &'static str;

    /// Makes the change of an entry.
    fn restore(&mut self, entry: &str) -> io::Result<()>;

    /// The entry that stands for this one in a new journal, if any does. `seen` is a set for the entries of one journal.
    fn renew(&self, entry: &str, seen: &mut BTreeSet<String>) -> io::Result<Option<String>>;
}

/// A journal, and the table of the entries that were read.
pub(super) struct Journal<T> {
    path: PathBuf,
    table: T,
    /// The first line of the journal that was read, which is another one after it was rewritten.
    heading: String,
    /// The bytes that were read.
    read: u64,
    /// The size at which it is rewritten.
    rewrite_at: u64,
}

impl<T: Table> Journal<T> {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, table: T::default(), heading: String::new(), read: 0, rewrite_at: LEAST_REWRITTEN }
    }

    /// Looks something up in the table, with the entries of all processes.
    pub(super) fn read<R>(&mut self, look: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.with_lock(|journal| {
            journal.catch_up()?;
            look(&journal.table)
        })
    }

    /// Changes the table in one atomic step for all processes. `change` returns whether it has changed the table, so that
    /// the journal gets the entry, and its result.
    pub(super) fn write<R>(
        &mut self,
        entry: &str,
        change: impl FnOnce(&mut T) -> io::Result<(bool, R)>,
    ) -> io::Result<R> {
        self.with_lock(|journal| {
            let mut file = journal.catch_up()?;
            // On a full disk this fails, before the table changes. Without the end of its line it is no entry yet.
            file.write_all(entry.as_bytes())?;
            let changed = journal.commit(file, entry, change);
            // The table may differ from the journal, which is read again.
            changed.inspect_err(|_| journal.heading.clear())
        })
    }

    fn with_lock<R>(&mut self, act: impl FnOnce(&mut Self) -> io::Result<R>) -> io::Result<R> {
        let private = make_private(self.path.parent().unwrap_or(Path::new(".")));
        let locked = private.and_then(|()| lock(&self.path.with_extension("lock")));
        let done = locked.and_then(|_lock| act(self));
        done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }

    /// Changes the table, and completes the entry at the end of the file, or removes it.
    fn commit<R>(
        &mut self,
        mut file: File,
        entry: &str,
        change: impl FnOnce(&mut T) -> io::Result<(bool, R)>,
    ) -> io::Result<R> {
        let (is_changed, result) = change(&mut self.table)?;
        if !is_changed {
            file.set_len(self.read)?;
            return Ok(result);
        }
        file.write_all(b"\n")?;
        file.sync_data()?;
        self.read = self.read.saturating_add(entry.len() as u64 + 1);
        if self.read > self.rewrite_at && self.rewrite(file).is_err() {
            // The entry is stored. The journal is read again, and rewritten once it has doubled.
            self.heading.clear();
        }
        Ok(result)
    }

    /// Reads the entries of other processes. An incomplete one is of a process that has ended: it is removed. Returns the
    /// file, at its end.
    fn catch_up(&mut self) -> io::Result<File> {
        let mut file = match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.replace_with("")?;
                // The table is that of a journal which was removed.
                self.heading.clear();
                self.open()?
            }
            opened => opened?,
        };
        let mut reader = BufReader::new(&mut file);
        let heading = read_entry(&mut reader)?.unwrap_or_default();
        if !heading.starts_with(T::HEADING) {
            return Err(damaged());
        }
        // Something else truncated it. The next change writes a new one, by which all processes notice.
        let is_cut = heading == self.heading && reader.get_ref().metadata()?.len() < self.read;
        let is_new = is_cut || heading != self.heading;
        if is_new {
            (self.table, self.read) = (T::default(), heading.len() as u64 + 1);
        }
        // Until all of it is read.
        self.heading.clear();
        reader.seek(SeekFrom::Start(self.read))?;
        while let Some(entry) = read_entry(&mut reader)? {
            self.table.restore(&entry)?;
            self.read = self.read.saturating_add(entry.len() as u64 + 1);
        }
        self.heading = heading;
        if is_new {
            self.rewrite_at = if is_cut { 0 } else { LEAST_REWRITTEN.max(self.read.saturating_mul(2)) };
        }
        if file.metadata()?.len() > self.read {
            file.set_len(self.read)?;
        }
        file.seek(SeekFrom::Start(self.read))?;
        Ok(file)
    }

    fn open(&self) -> io::Result<File> {
        private_file().read(true).open(&self.path)
    }

    /// Rewrites the journal without the entries that have no effect any more.
    fn rewrite(&mut self, mut file: File) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.heading.len() as u64 + 1))?;
        let mut reader = BufReader::new(file);
        let (mut entries, mut seen) = (String::new(), BTreeSet::new());
        while let Some(entry) = read_entry(&mut reader)? {
            if let Some(entry) = self.table.renew(&entry, &mut seen)? {
                entries.push_str(&entry);
                entries.push('\n');
            }
        }
        // Not every Windows replaces a file that is open.
        drop(reader);
        self.replace_with(&entries)
    }

    /// Replaces the journal by one with these entries, which make the same table.
    fn replace_with(&mut self, entries: &str) -> io::Result<()> {
        let new = self.path.with_extension("new");
        // Left by a process that has ended.
        let _ = fs::remove_file(&new);
        self.heading = format!("{} {:016x}", T::HEADING, random()?);
        let contents = format!("{}\n{entries}", self.heading);
        replace(&self.path, &new, contents.as_bytes())?;
        self.read = contents.len() as u64;
        self.rewrite_at = LEAST_REWRITTEN.max(self.read.saturating_mul(2));
        self.path.parent().map(sync);
        Ok(())
    }
}

/// Reads an entry; `None` if there is none, or an incomplete one.
fn read_entry(reader: &mut impl io::BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Ok(None);
    }
    String::from_utf8(line).map(Some).map_err(|_| damaged())
}

/// The error of a journal that this library has not written.
pub(super) fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the journal is damaged, or another program's")
}
