//! The thread that writes a trace: records wait for it in a queue, and files that are full begin anew.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use mcp_proto::trace_file::{TraceEvent, TraceRecord};

use crate::private_files::{hold, private_file};

/// The most bytes of records that wait to be written.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// How long records wait for others: to wake a thread and to write cost more than all the rest.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The bytes of records that are written without waiting for more.
const BATCH_BYTES: usize = 256 * 1024;

/// How long to wait for another writer of the same file, which may be about to end, and for the lock of its folder.
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);

/// The most files beside the first one.
const MAX_BESIDE: u32 = 100;

/// The records that wait to be written.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// The number of records that did not fit.
    lost: u64,
    flushes: Vec<SyncSender<io::Result<()>>>,
    is_over: bool,
}

impl Waiting {
    fn push_flush(&mut self, done: SyncSender<io::Result<()>>) {
        if !self.is_over {
            self.flushes.push(done);
        }
    }

    fn is_urgent(&self) -> bool {
        self.is_over || !self.flushes.is_empty() || self.lines.len() >= BATCH_BYTES
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, record: TraceRecord) {
        let mut waiting = self.lock();
        let before = waiting.lines.len();
        if before > MAX_WAITING || waiting.is_over {
            waiting.lost += 1;
            return;
        }
        let records = mem::take(&mut waiting.lost);
        if records > 0 {
            let lost = TraceRecord::new(record.at(), record.connection, TraceEvent::Lost { records });
            waiting.lines.extend(lost.to_line());
        }
        waiting.lines.extend(record.to_line());
        // In between, the thread waits for the batch.
        let is_first = before == 0 || (before < BATCH_BYTES && waiting.is_urgent());
        drop(waiting);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Waits until all records so far are written; returns the first error of writing.
    pub(super) fn flush(&self) -> io::Result<()> {
        let (done, wait) = mpsc::sync_channel(1);
        // Without the thread, the sender is dropped at once.
        self.lock().push_flush(done);
        self.changed.notify_one();
        wait.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that writes the trace has ended")))
    }

    /// Ends the thread, once everything is written.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Waits for records, and for a while for more of them; leaves `spare` for the next ones.
    fn take(&self, spare: Vec<u8>) -> Waiting {
        let waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| waiting.lines.is_empty() && !waiting.is_urgent();
        let waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        let more = self.changed.wait_timeout_while(waiting, BATCH_TIME, |waiting| !waiting.is_urgent());
        let (mut waiting, _) = more.unwrap_or_else(PoisonError::into_inner);
        let (lines, flushes) = (mem::replace(&mut waiting.lines, spare), mem::take(&mut waiting.flushes));
        Waiting { lines, lost: 0, flushes, is_over: waiting.is_over }
    }
}

/// The end of the thread, perhaps by a panic of the application's sink: nothing waits for it any more.
struct End<'a>(&'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Waiting { is_over: true, ..Waiting::default() };
    }
}

/// The thread's side.
pub(super) struct Writer {
    output: Box<dyn Write + Send>,
    /// Of a file.
    rotation: Option<Rotation>,
    failure: Option<(io::ErrorKind, String)>,
}

struct Rotation {
    path: PathBuf,
    header: Vec<u8>,
    /// The number of bytes behind the header.
    length: u64,
    max_bytes: u64,
}

impl Writer {
    /// A writer of a file at this path, or of one [beside it](beside) while another writer has it.
    pub(super) fn to_file(path: PathBuf, header: Vec<u8>, max_bytes: u64) -> io::Result<(Self, PathBuf)> {
        let (path, file) = open_free(path, &header)?;
        let rotation = Rotation { path: path.clone(), header, length: 0, max_bytes };
        Ok((Self { output: Box::new(file), rotation: Some(rotation), failure: None }, path))
    }

    pub(super) fn to_sink(mut sink: Box<dyn Write + Send>, header: &[u8]) -> io::Result<Self> {
        sink.write_all(header)?;
        Ok(Self { output: sink, rotation: None, failure: None })
    }

    /// Starts the thread.
    pub(super) fn start(mut self) -> io::Result<Arc<Queue>> {
        let queue = Arc::new(Queue::default());
        let taken = queue.clone();
        thread::Builder::new().name("mcp-trace".into()).spawn(move || self.run(&taken))?;
        Ok(queue)
    }

    /// Writes until the trace is over.
    fn run(&mut self, queue: &Queue) {
        let _end = End(queue);
        let mut spare = Vec::new();
        loop {
            let Waiting { mut lines, flushes, is_over, .. } = queue.take(spare);
            // After a failure a line could be incomplete.
            if self.failure.is_none()
                && let Err(error) = self.write(&lines).and_then(|()| self.output.flush())
            {
                self.failure = Some((error.kind(), error.to_string()));
            }
            for done in flushes {
                let failed = |(kind, text): (io::ErrorKind, String)| Err(io::Error::new(kind, text));
                // If this fails, its receiver is gone.
                let _ = done.send(self.failure.clone().map_or(Ok(()), failed));
            }
            if is_over {
                return;
            }
            lines.clear();
            lines.shrink_to(BATCH_BYTES);
            spare = lines;
        }
    }

    /// Writes whole lines: those that fit into the file, and the others into the next one.
    fn write(&mut self, mut lines: &[u8]) -> io::Result<()> {
        while !lines.is_empty() {
            let fitting = match &self.rotation {
                Some(rotation) => rotation.fitting(lines),
                None => lines.len(),
            };
            let (now, later) = lines.split_at(fitting);
            self.output.write_all(now)?;
            if let Some(rotation) = &mut self.rotation {
                rotation.length = rotation.length.saturating_add(now.len() as u64);
                if !later.is_empty() {
                    self.output = Box::new(rotation.begin_anew()?);
                }
            }
            lines = later;
        }
        Ok(())
    }
}

impl Rotation {
    /// The length of the whole lines that fit into the file: at least one into an empty one.
    fn fitting(&self, lines: &[u8]) -> usize {
        let room = usize::try_from(self.max_bytes.saturating_sub(self.length)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        let is_end = |byte: &u8| *byte == b'\n';
        let last = lines.get(..room).and_then(|fitting| fitting.iter().rposition(is_end));
        let first = || lines.iter().position(is_end).filter(|_| self.length == 0);
        last.or_else(first).map_or(0, |end| end + 1)
    }

    fn begin_anew(&mut self) -> io::Result<File> {
        let mut before = self.path.clone().into_os_string();
        before.push(".1");
        let _folder = lock_folder(&self.path);
        remove(before.as_ref())?;
        fs::rename(&self.path, before)?;
        self.length = 0;
        create(&self.path, &self.header)
    }
}

/// Creates the file at this path, or beside it while another writer has it; in the place of a trace that was there.
fn open_free(path: PathBuf, header: &[u8]) -> io::Result<(PathBuf, File)> {
    let is_in_use = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    let end = Instant::now() + PATIENCE;
    loop {
        match open(&path, header) {
            Err(error) if is_in_use(&error) && Instant::now() < end => thread::sleep(PAUSE),
            Err(error) if is_in_use(&error) => break,
            opened => return opened.map(|file| (path, file)),
        }
    }
    for number in 2..=MAX_BESIDE {
        let beside = beside(&path, number);
        match open(&beside, header) {
            Err(error) if is_in_use(&error) || error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (beside, file)),
        }
    }
    Err(in_use(&path))
}

/// A name beside that of a file: `a.2.trace` beside `a.trace`. No server has a dot in the name of its trace.
fn beside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn in_use(path: &Path) -> io::Error {
    let what = format!("another program writes {}", path.display());
    io::Error::new(io::ErrorKind::ResourceBusy, what)
}

fn open(path: &Path, header: &[u8]) -> io::Result<File> {
    let _folder = lock_folder(path);
    remove(path)?;
    create(path, header)
}

/// Creates a file, and locks it for as long as it is open.
fn create(path: &Path, header: &[u8]) -> io::Result<File> {
    let mut file = private_file().create_new(true).open(path)?;
    try_lock(&file, path)?;
    file.write_all(header)?;
    Ok(file)
}

/// Removes the trace at this path, unless another writer has it. Other files stay, and so do devices, links and folders.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if found.is_file() => {
            let file = File::open(path)?;
            try_lock(&file, path)?;
            if is_trace(&file)? {
                return fs::remove_file(path);
            }
        }
        Ok(_) => {}
    }
    let what = format!("{} is there, and is no trace", path.display());
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// Whether a file is a trace, or empty.
fn is_trace(file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(12).read_to_end(&mut start)?;
    Ok(start.is_empty() || start == b"{\"mcpTrace\":")
}

/// Locks a file, if its file system can; fails if another writer has it.
#[cfg(unix)]
fn try_lock(file: &File, path: &Path) -> io::Result<()> {
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(in_use(path)),
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(()),
    }
}

/// Elsewhere a lock would keep readers out too.
#[cfg(not(unix))]
fn try_lock(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Keeps other writers from the names in the folder of a file between two steps, if the system can lock folders.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    hold(&folder, PATIENCE).ok()?;
    Some(folder)
}
