//! The thread that makes the records of a trace and writes them: what passed waits for it in a queue, and a new file takes the
//! place of one that is full.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use mcp_proto::trace_file::{TraceEvent, TraceRecord};

use crate::private_files::{hold, private_file};

/// The most bytes of records that wait to be written.
const MAX_WAITING: usize = 64 * 1024 * 1024;

/// The most bytes that wait to be written if the ends of connections, which come after all else, are counted too.
const MAX_WAITING_WITH_ENDS: usize = 2 * MAX_WAITING;

/// How long records wait for others: to wake a thread and to write cost more than all the rest.
const BATCH_TIME: Duration = Duration::from_millis(5);

/// The bytes of records that are written without waiting for more.
const BATCH_BYTES: usize = 256 * 1024;

/// How long to wait for another writer of the same file, which may be about to end, and for the lock of its folder.
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);

/// The most files beside the first one.
const MAX_BESIDE: u32 = 100;

/// The bytes that an entry is counted for beside its text.
const ENTRY: usize = 256;

/// The bytes that the end of a connection is counted for: it owns the readers of the frames, with their redactor.
const CONNECTION_END: usize = 8 * 1024;

/// The entries that wait to be written.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    /// The bytes of all entries.
    bytes: usize,
    /// The number of entries that did not fit.
    lost: u64,
    /// The number of entries that are flushes.
    flushes: usize,
    is_over: bool,
}

/// What waits to be written.
pub(super) struct Entry {
    at: Duration,
    connection: u64,
    bytes: usize,
    content: Content,
}

enum Content {
    Line(Vec<u8>),
    /// So many entries are lost here.
    Lost(u64),
    Later(Later),
    /// A caller waits until all entries before it are written.
    Flush(SyncSender<io::Result<()>>),
}

/// Makes events on the thread that writes them, and not on that of a connection.
pub(super) type Later = Box<dyn FnOnce(&mut dyn FnMut(TraceEvent)) + Send>;

impl Entry {
    pub(super) fn event(at: Duration, connection: u64, event: TraceEvent) -> Self {
        let line = TraceRecord::new(at, connection, event).to_line();
        Self { at, connection, bytes: line.len() + ENTRY, content: Content::Line(line) }
    }

    /// An entry whose events are made of so many bytes.
    pub(super) fn later(at: Duration, connection: u64, bytes: usize, events: Later) -> Self {
        Self { at, connection, bytes: bytes.saturating_add(ENTRY), content: Content::Later(events) }
    }

    /// The last entry of a connection, which makes the events of what is left of its streams.
    pub(super) fn end(at: Duration, connection: u64, events: Later) -> Self {
        Self::later(at, connection, CONNECTION_END, events)
    }

    fn flush(done: SyncSender<io::Result<()>>) -> Self {
        Self { at: Duration::ZERO, connection: 0, bytes: 0, content: Content::Flush(done) }
    }

    fn lost(at: Duration, connection: u64, records: u64) -> Self {
        Self { at, connection, bytes: ENTRY, content: Content::Lost(records) }
    }

    fn is_flush(&self) -> bool {
        matches!(self.content, Content::Flush(_))
    }
}

impl Waiting {
    fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.flushes += usize::from(entry.is_flush());
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        self.flushes -= usize::from(entry.is_flush());
        Some(entry)
    }

    /// Takes all entries away, which are lost, but the flushes: others wait for these.
    fn lose_all(&mut self) -> VecDeque<Entry> {
        let (flushes, lost) = mem::take(&mut self.entries).into_iter().partition(Entry::is_flush);
        (self.entries, self.bytes) = (flushes, 0);
        let pieces = |entry: &Entry| match entry.content {
            Content::Lost(records) => records,
            _ => 1,
        };
        self.lost += VecDeque::iter(&lost).map(pieces).sum::<u64>();
        lost
    }

    fn is_urgent(&self) -> bool {
        self.is_over || self.flushes > 0 || self.bytes >= BATCH_BYTES
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an entry, if there is room for it.
    pub(super) fn push(&self, entry: Entry) {
        self.push_within(MAX_WAITING, entry);
    }

    /// Adds the last entry of a connection, for which some room is kept.
    pub(super) fn push_end(&self, entry: Entry) {
        self.push_within(MAX_WAITING_WITH_ENDS, entry);
    }

    fn push_within(&self, most: usize, entry: Entry) {
        let mut waiting = self.lock();
        if waiting.bytes > most || waiting.is_over {
            waiting.lost += 1;
            return;
        }
        let was_urgent = waiting.is_urgent();
        let is_first = waiting.entries.is_empty();
        let records = mem::take(&mut waiting.lost);
        if records > 0 {
            waiting.push(Entry::lost(entry.at, entry.connection, records));
        }
        waiting.push(entry);
        // In between, the thread waits for the batch.
        let wakes = is_first || (!was_urgent && waiting.is_urgent());
        drop(waiting);
        if wakes {
            self.changed.notify_one();
        }
    }

    /// Waits until all entries so far are written; returns the first error of writing.
    pub(super) fn flush(&self) -> io::Result<()> {
        // Without the thread, the sender is dropped at once.
        self.begin_flush().recv().unwrap_or_else(|_| Err(has_ended()))
    }

    /// Waits for so long until all entries so far are written, and drops the others.
    pub(super) fn flush_within(&self, time: Duration) -> io::Result<()> {
        match self.begin_flush().recv_timeout(time) {
            Ok(result) => result,
            Err(RecvTimeoutError::Disconnected) => Err(has_ended()),
            Err(RecvTimeoutError::Timeout) => {
                // They are dropped when the lock is free again.
                let _lost = self.lock().lose_all();
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    fn begin_flush(&self) -> Receiver<io::Result<()>> {
        let (done, wait) = mpsc::sync_channel(1);
        let mut waiting = self.lock();
        if !waiting.is_over {
            waiting.push(Entry::flush(done));
        }
        drop(waiting);
        self.changed.notify_one();
        wait
    }

    /// Ends the thread, once everything is written.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_one();
    }

    /// Waits for entries, and for a while for more of them; returns some of them, or `None` at the end.
    fn take(&self) -> Option<Vec<Entry>> {
        let waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| waiting.entries.is_empty() && !waiting.is_over;
        let waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        let more = self.changed.wait_timeout_while(waiting, BATCH_TIME, |waiting| !waiting.is_urgent());
        let (mut waiting, _) = more.unwrap_or_else(PoisonError::into_inner);
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(entry) = waiting.pop()
        {
            bytes += entry.bytes;
            taken.push(entry);
        }
        // A flush whose time was over may have taken all.
        (!taken.is_empty() || !waiting.is_over).then_some(taken)
    }
}

fn has_ended() -> io::Error {
    io::Error::other("the thread that writes the trace has ended")
}

/// Lets the threads of the connections run before this thread, which does all the work of the trace.
#[cfg(target_os = "linux")]
fn yield_to_others() {
    // If the system refuses that, the thread runs as often as they do.
    let _ = rustix::process::nice(10);
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
        #[cfg(target_os = "linux")]
        yield_to_others();
        let _end = End(queue);
        let mut lines = Vec::new();
        while let Some(entries) = queue.take() {
            for Entry { at, connection, content, .. } in entries {
                match content {
                    Content::Line(line) => lines.extend(line),
                    Content::Lost(records) => {
                        lines
                            .extend(TraceRecord::new(at, connection, TraceEvent::Lost { records }).to_line());
                    }
                    Content::Later(_) if self.failure.is_some() => {}
                    Content::Later(events) => {
                        events(&mut |event| lines.extend(TraceRecord::new(at, connection, event).to_line()));
                    }
                    Content::Flush(done) => {
                        let failed = |(kind, text): (io::ErrorKind, String)| Err(io::Error::new(kind, text));
                        self.write_all(&mut lines);
                        // If this fails, its receiver is gone.
                        let _ = done.send(self.failure.clone().map_or(Ok(()), failed));
                    }
                }
                // Short lines have records many times their size.
                if lines.len() >= BATCH_BYTES {
                    self.write_all(&mut lines);
                }
            }
            self.write_all(&mut lines);
        }
    }

    /// Writes the lines, unless it has failed before: a line could be incomplete then.
    fn write_all(&mut self, lines: &mut Vec<u8>) {
        if self.failure.is_none()
            && let Err(error) = self.write(lines).and_then(|()| self.output.flush())
        {
            self.failure = Some((error.kind(), error.to_string()));
        }
        lines.clear();
        lines.shrink_to(BATCH_BYTES);
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
            let file = open_unwritten(path)?;
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

/// Opens a file for reading; fails if a writer has it.
#[cfg(not(windows))]
fn open_unwritten(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    try_lock(&file, path)?;
    Ok(file)
}

/// Opens a file for reading, which Windows refuses while another has it open for writing, unless this is shared.
#[cfg(windows)]
fn open_unwritten(path: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt as _;
    const FILE_SHARE_READ: u32 = 1;
    const FILE_SHARE_DELETE: u32 = 4;
    const ERROR_SHARING_VIOLATION: i32 = 32;

    let opened = File::options().read(true).share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE).open(path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(ERROR_SHARING_VIOLATION) => in_use(path),
        _ => error,
    })
}

/// Locks a file, if its file system can; fails if another writer has it.
#[cfg(not(windows))]
fn try_lock(file: &File, path: &Path) -> io::Result<()> {
    match file.try_lock() {
        Err(fs::TryLockError::WouldBlock) => Err(in_use(path)),
        Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(()),
    }
}

/// A lock would keep readers out on Windows; that it is open for writing is enough there.
#[cfg(windows)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_a_flush_drops_are_counted_and_other_flushes_wait_on() {
        let queue = Queue::default();
        let push = || queue.push(Entry::event(Duration::ZERO, 1, TraceEvent::Lost { records: 1 }));
        (0..1000).for_each(|_| push());
        let other = queue.begin_flush();
        for _ in 0..2 {
            assert_eq!(queue.flush_within(Duration::ZERO).unwrap_err().kind(), io::ErrorKind::TimedOut);
            push();
        }
        let entries = queue.take().unwrap();
        let flushes = entries.iter().filter(|entry| entry.is_flush()).count();
        assert_eq!((flushes, other.try_recv().is_err()), (3, true));
        let lost = entries.iter().find_map(|entry| match entry.content {
            Content::Lost(records) => Some(records),
            _ => None,
        });
        // The count before the entry that was dropped with it, too.
        assert_eq!(lost, Some(1001));
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn ends_of_connections_have_room_of_their_own_which_is_bounded() {
        let queue = Queue::default();
        let record = || queue.push(Entry::later(Duration::ZERO, 1, 1 << 20, Box::new(|_| {})));
        let end = || queue.push_end(Entry::end(Duration::ZERO, 1, Box::new(|_| {})));
        let state = || {
            let waiting = queue.lock();
            (waiting.entries.len(), waiting.lost)
        };
        (0..70).for_each(|_| record());
        assert_eq!(state(), (64, 6));
        end();
        record();
        assert_eq!(state(), (66, 1), "the end, and how many records before it are lost");
        (0..10_000).for_each(|_| end());
        assert!(queue.lock().bytes <= MAX_WAITING_WITH_ENDS + CONNECTION_END + 3 * ENTRY);
        assert!(queue.lock().lost > 1000);
    }
}
