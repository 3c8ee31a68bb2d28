//! The only module that writes to standard output and standard error.
//!
//! It takes [`Text`] and styles, so that no character of a peer can control a terminal. Programs that read the output
//! get the same text without styles.

mod text;

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};

use anstream::stream::{AsLockedWrite, RawStream};
use anstream::{AutoStream, ColorChoice};
use mcp_proto::consent::SafeText;
use terminal_size::{Height, Width, terminal_size_of};

pub(crate) use text::{
    BAD, GOOD, HEADING, NAME, NARROWEST, QUIET, Text, login_hint, quoted_word, styled, styled_block, width,
    wrap,
};

/// The width to assume if the terminal does not report it.
pub(crate) const DEFAULT_WIDTH: usize = 80;

/// The height to assume.
const DEFAULT_HEIGHT: usize = 24;

/// An output stream. It omits styles unless it is a terminal, and if NO_COLOR is set. Each line is one write.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    has_styles: bool,
    /// The width, if it is a terminal.
    columns: Option<usize>,
    /// Whether lines can be replaced: not on a terminal without control sequences.
    can_erase: bool,
    /// Whether results are written as JSON.
    is_json: bool,
    /// Whether lines that cannot be written are dropped: nothing depends on messages.
    drops_lines: bool,
}

impl Screen {
    /// Standard output, for results.
    pub(crate) fn output() -> Self {
        let out = io::stdout();
        let columns = out.is_terminal().then(|| size(terminal_size_of(&out)).0);
        Self::of(out, columns)
    }

    /// Standard error, for everything else.
    pub(crate) fn messages() -> Self {
        let out = io::stderr();
        let columns = out.is_terminal().then(|| size(terminal_size_of(&out)).0);
        Self { drops_lines: true, ..Self::of(out, columns) }
    }

    fn of<S: RawStream + AsLockedWrite + Send + 'static>(out: S, columns: Option<usize>) -> Self {
        let has_styles = AutoStream::choice(&out) != ColorChoice::Never;
        let can_erase = columns.is_some() && env::var_os("TERM").is_none_or(|term| term != "dumb");
        // The stream that removes styles would write each piece between them on its own.
        let out: Box<dyn Write + Send> =
            if has_styles { Box::new(AutoStream::auto(out)) } else { Box::new(out) };
        Self { out, has_styles, columns, can_erase, is_json: false, drops_lines: false }
    }

    /// A screen that records its output: a terminal of this width, or none.
    #[cfg(test)]
    pub(crate) fn recorded(columns: Option<usize>) -> (Self, ScreenRecording) {
        let record = ScreenRecording::default();
        let (out, can_erase) = (Box::new(record.clone()), columns.is_some());
        (Self { out, has_styles: true, columns, can_erase, is_json: false, drops_lines: false }, record)
    }

    /// Writes results as JSON from now on.
    pub(crate) fn use_json(&mut self) {
        self.is_json = true;
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// The terminal's width, if it is a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.columns.is_some()
    }

    /// Whether lines can be replaced.
    pub(crate) fn can_erase(&self) -> bool {
        self.can_erase
    }

    /// A line, or the lines of a block.
    pub(crate) fn line(&mut self, text: impl Into<Text>) -> io::Result<()> {
        let mut line = self.written(&text.into());
        line.push('\n');
        match self.out.write_all(line.as_bytes()) {
            Err(_) if self.drops_lines => Ok(()),
            written => written,
        }
    }

    /// A line that names this program: something that the user should know.
    pub(crate) fn warning(&mut self, text: impl Into<Text>) -> io::Result<()> {
        self.line(styled(BAD, "mcpio:").and(" ").and(text))
    }

    /// Prints text and leaves the cursor behind it, as for a question.
    pub(crate) fn prompt(&mut self, text: impl Into<Text>) -> io::Result<()> {
        let text = self.written(&text.into());
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Prints a block under a label. Its further lines are indented, so that none looks like a line of this program.
    pub(crate) fn labelled(&mut self, label: impl Into<Text>, block: impl Into<Text>) -> io::Result<()> {
        let mut start = label.into().and(" ");
        for line in block.into().lines() {
            self.line(start.and(line))?;
            start = Text::from("    ");
        }
        Ok(())
    }

    /// Replaces the line that holds the cursor, by one that fits on the terminal; only for those that can
    /// [erase](Self::can_erase).
    pub(crate) fn rewrite(&mut self, text: impl Into<Text>) -> io::Result<()> {
        // The last column stays free: a line that fills it is wrapped, and only its last row could be erased.
        let room = self.columns.unwrap_or(DEFAULT_WIDTH).saturating_sub(1);
        let text = self.written(&text.into().cut(room));
        self.out.write_all(format!("\r\x1b[2K{text}").as_bytes())?;
        self.out.flush()
    }

    /// Writes bytes unchanged, as the user requested by `--raw`.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    fn written(&self, text: &Text) -> String {
        let mut written = String::new();
        for (style, text) in text.spans() {
            // The text is already escaped. Escaping it again changes nothing, and keeps the guarantee in one place.
            let text = SafeText::block(text);
            written.push_str(&match self.has_styles {
                true => format!("{style}{text}{style:#}"),
                false => text.to_string(),
            });
        }
        written
    }
}

/// Lines of a terminal that are replaced again and again.
#[derive(Default)]
pub(crate) struct LiveArea {
    /// How many lines of the terminal the last ones fill.
    filled: usize,
}

impl LiveArea {
    /// The columns of a line, and how many lines there are.
    pub(crate) fn room() -> (usize, usize) {
        let (columns, rows) = size(terminal_size_of(io::stdout()));
        // The last column stays free, as a line that fills it may be wrapped; the last line is for the cursor.
        (columns.saturating_sub(1).max(1), rows.saturating_sub(1).max(1))
    }

    /// Shows these lines in the place of the last ones, each cut at the end of the terminal's line. Those that do not fit
    /// on the terminal are left out.
    pub(crate) fn show(&mut self, screen: &mut Screen, lines: &[Text]) -> io::Result<()> {
        let (columns, rows) = Self::room();
        let mut written = self.erased();
        for line in lines.iter().take(rows) {
            written.push_str(&screen.written(&line.clone().cut(columns)));
            written.push('\n');
        }
        self.filled = lines.len().min(rows);
        // In one piece, so that nothing flickers.
        screen.out.write_all(written.as_bytes())?;
        screen.out.flush()
    }

    /// Removes the lines to make room for other output.
    pub(crate) fn clear(&mut self, screen: &mut Screen) -> io::Result<()> {
        let erased = self.erased();
        self.filled = 0;
        screen.out.write_all(erased.as_bytes())?;
        screen.out.flush()
    }

    fn erased(&self) -> String {
        let up = if self.filled > 0 { format!("\x1b[{}A", self.filled) } else { String::new() };
        format!("{up}\r\x1b[J")
    }
}

/// The columns and rows of a terminal.
fn size(reported: Option<(Width, Height)>) -> (usize, usize) {
    reported.map_or((DEFAULT_WIDTH, DEFAULT_HEIGHT), |(Width(columns), Height(rows))| {
        (columns.into(), rows.into())
    })
}

/// The output of a recorded screen.
#[cfg(test)]
#[derive(Clone, Default)]
pub(crate) struct ScreenRecording(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

#[cfg(test)]
impl ScreenRecording {
    /// The bytes as text, with styles.
    pub(crate) fn styled(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The text without styles.
    pub(crate) fn plain(&self) -> String {
        anstream::adapter::strip_str(&self.styled()).to_string()
    }
}

#[cfg(test)]
impl Write for ScreenRecording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The terminal that is standard input has another mode until this is dropped, also by a signal or a panic.
#[derive(Debug)]
pub(crate) struct TerminalMode {
    #[cfg(unix)]
    before: rustix::termios::Termios,
    #[cfg(unix)]
    now: rustix::termios::Termios,
}

#[cfg(unix)]
impl TerminalMode {
    /// Hides what the user types.
    ///
    /// # Errors
    /// If standard input is no terminal, or this system's terminals cannot hide it.
    pub(crate) fn without_echo() -> io::Result<Self> {
        Self::begin(rustix::termios::LocalModes::ECHO)
    }

    /// Passes on each key at once, unseen. Ctrl-C stays a signal.
    ///
    /// # Errors
    /// If standard input is no terminal, or the one of another program in the foreground.
    pub(crate) fn keys() -> io::Result<Self> {
        use rustix::termios::LocalModes;
        if !has_foreground() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Self::begin(LocalModes::ECHO | LocalModes::ICANON)
    }

    fn begin(without: rustix::termios::LocalModes) -> io::Result<Self> {
        use rustix::termios::{SpecialCodeIndex, tcgetattr};
        let before = tcgetattr(io::stdin())?;
        let mut now = before.clone();
        now.local_modes.remove(without);
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mode = Self { before, now };
        mode.renew()?;
        Ok(mode)
    }

    /// Sets the mode again, which a shell resets while this program is suspended.
    pub(crate) fn renew(&self) -> io::Result<()> {
        use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
        // In the background, that would suspend it once more.
        if has_foreground() && tcgetattr(io::stdin())?.local_modes != self.now.local_modes {
            tcsetattr(io::stdin(), OptionalActions::Now, &self.now)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
impl Drop for TerminalMode {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // In the background this would stop the program, and the shell has set the terminal already.
        if has_foreground() {
            // If this fails, nothing can be done about it.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }
}

#[cfg(not(unix))]
impl TerminalMode {
    pub(crate) fn without_echo() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn keys() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn renew(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether this program may read from the terminal that is standard input: only one of its programs may.
pub(crate) fn has_foreground() -> bool {
    #[cfg(unix)]
    let is_in_front =
        rustix::termios::tcgetpgrp(io::stdin()).map_or(true, |it| it == rustix::process::getpgrp());
    #[cfg(not(unix))]
    let is_in_front = true;
    is_in_front
}

/// Whether this process is in the foreground group of its controlling terminal, to which Ctrl-C sends SIGINT as a whole.
#[cfg(unix)]
pub(crate) fn is_in_foreground_group() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Standard input, output and error of this process, without their buffers: for bytes that are another program's.
#[cfg(unix)]
pub(crate) fn own_streams() -> io::Result<(File, File, File)> {
    use std::os::fd::AsFd as _;

    let stream = |stream: std::os::fd::BorrowedFd<'_>| stream.try_clone_to_owned().map(Into::into);
    Ok((stream(io::stdin().as_fd())?, stream(io::stdout().as_fd())?, stream(io::stderr().as_fd())?))
}

#[cfg(windows)]
pub(crate) fn own_streams() -> io::Result<(File, File, File)> {
    use std::os::windows::io::AsHandle as _;

    let stream =
        |stream: std::os::windows::io::BorrowedHandle<'_>| stream.try_clone_to_owned().map(Into::into);
    Ok((
        stream(io::stdin().as_handle())?,
        stream(io::stdout().as_handle())?,
        stream(io::stderr().as_handle())?,
    ))
}

/// Closes standard input: the client must notice that the server has closed its own.
#[cfg(unix)]
pub(crate) fn close_input() {
    // If this fails, the client notices at the end of this process.
    let _ = File::open("/dev/null").map(rustix::stdio::dup2_stdin);
}

/// Closes standard output: the client must notice that the server has closed its own.
#[cfg(unix)]
pub(crate) fn close_output() {
    let _ = File::options().write(true).open("/dev/null").map(rustix::stdio::dup2_stdout);
}

#[cfg(not(unix))]
pub(crate) fn close_input() {}

#[cfg(not(unix))]
pub(crate) fn close_output() {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn screen_shows_styles_of_its_own_and_no_sequence_of_a_peer() {
        let (mut screen, record) = Screen::recorded(Some(80));
        screen.line(styled(BAD, "a\x1b[2Jb")).unwrap();
        assert_eq!(record.plain(), "a\\u{1b}[2Jb\n");
        assert_eq!(record.styled(), format!("{BAD}a\\u{{1b}}[2Jb{BAD:#}\n"));
    }

    /// A stream that counts its writes.
    struct Writes(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_is_one_write() {
        let count = std::sync::Arc::default();
        let (mut screen, _) = Screen::recorded(None);
        screen.out = Box::new(Writes(std::sync::Arc::clone(&count)));
        let block = format!("{}\n{}", "\u{1b}x".repeat(10_000), "y".repeat(10_000));
        screen.labelled(styled(BAD, "mcpio:"), Text::block(&block)).unwrap();
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    /// A stream whose reader has closed it.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn command_goes_on_without_a_reader_of_its_messages() {
        let mut messages = Screen::messages();
        messages.out = Box::new(Closed);
        assert!(messages.warning("left out").is_ok());
        let mut output = Screen::output();
        output.out = Box::new(Closed);
        assert!(output.line("result").is_err());
    }

    #[test]
    fn replaced_line_fits_on_the_terminal_and_is_erased_without_styles_too() {
        let (mut screen, record) = Screen::recorded(Some(10));
        screen.has_styles = false;
        screen.rewrite(styled(BAD, "緑緑緑緑緑緑")).unwrap();
        screen.rewrite("").unwrap();
        assert_eq!(record.styled(), "\r\x1b[2K緑緑緑緑\r\x1b[2K");
    }

    #[test]
    fn live_area_replaces_its_lines_each_cut_at_the_end_of_the_terminals() {
        let (mut screen, record) = Screen::recorded(Some(80));
        let mut area = LiveArea::default();
        let (columns, rows) = LiveArea::room();
        area.show(&mut screen, &[Text::from("x".repeat(columns + 5)), Text::from("\x1b[2J")]).unwrap();
        area.show(&mut screen, &vec![Text::from("y"); rows + 5]).unwrap();
        area.clear(&mut screen).unwrap();
        let (first, second) = ("x".repeat(columns), "y\n".repeat(rows));
        let expected = format!("\r\x1b[J{first}\n\\u{{1b}}[2J\n\x1b[2A\r\x1b[J{second}\x1b[{rows}A\r\x1b[J");
        assert_eq!(record.styled(), expected);
    }

    #[test]
    fn lines_of_a_labelled_block_cannot_pass_for_lines_of_this_program() {
        let (mut screen, record) = Screen::recorded(None);
        screen.labelled(styled(BAD, "mcpio:"), Text::block("it failed\nmcpio: run this\r\n")).unwrap();
        assert_eq!(record.plain(), "mcpio: it failed\n    mcpio: run this\n    \n");
    }

    /// All other output goes through the screen, so that its filter cannot be forgotten.
    #[test]
    fn no_other_file_writes_to_the_standard_streams() {
        const WAYS: [&str; 9] = [
            "println!",
            "eprint",
            "print!(",
            "io::stdout",
            "io::stderr",
            "anstream",
            "dbg!(",
            "/dev/tty",
            "x1b[",
        ];
        fn visit(folder: &Path, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    visit(&path, found);
                } else if !path.ends_with("terminal.rs") {
                    let source = fs::read_to_string(&path).unwrap();
                    for way in WAYS {
                        let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                        if code.contains(way) && !path.ends_with("tests.rs") {
                            found.push(format!("{}: {way}", path.display()));
                        }
                    }
                }
            }
        }
        let mut found = Vec::new();
        visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/mcpio"), &mut found);
        assert_eq!(found, [""; 0], "write through the screen");
    }
}
