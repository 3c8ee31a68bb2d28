//! The part of YAML that frontmatter may have.

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, StrInput};

use super::plain_scalar;
use crate::ordered_set::OrderedSet;
use crate::prelude::*;

/// The number of levels of the deepest frontmatter.
const MAX_LEVELS: usize = 16;

/// A value of frontmatter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// The source of a scalar without quotes.
    Plain(String),
    /// A scalar that is text: in quotes, or in lines of its own.
    Text(String),
    /// A text in lines of its own that ends the YAML. Its last line feed may be taken for that of what follows.
    LastBlock(String),
    List(Vec<Node>),
    Map(Fields),
}

/// The fields of a map. Their names are scalars.
pub(super) type Fields = Vec<(Node, Node)>;

impl Node {
    /// The text of a scalar.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Text(text) | Self::LastBlock(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The source of a scalar without quotes.
    pub(super) fn as_plain(&self) -> Option<&str> {
        if let Self::Plain(source) = self { Some(source) } else { None }
    }

    pub(super) fn is_null(&self) -> bool {
        self.as_plain().is_some_and(plain_scalar::is_null)
    }

    /// Marks the text that ends the YAML.
    fn mark_last_block(&mut self) {
        match self {
            Self::Text(text) => *self = Self::LastBlock(core::mem::take(text)),
            Self::List(items) => items.last_mut().into_iter().for_each(Self::mark_last_block),
            Self::Map(fields) => fields.last_mut().into_iter().for_each(|(_, node)| node.mark_last_block()),
            Self::Plain(_) | Self::LastBlock(_) => {}
        }
    }
}

/// Reads a map of YAML, one document long.
pub(super) fn read_map(yaml: &str) -> Result<Fields, FrontmatterError> {
    let parser = Parser::new_from_str_with_options(yaml, options());
    let mut events = Events { parser, ends_with_block: false };
    let mut node = loop {
        let (event, line) = events.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::StreamEnd => return Err(FrontmatterError::NoMap),
            event => break events.node(event, line, 0)?,
        }
    };
    loop {
        match events.next()? {
            (Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => break,
            (_, line) => return unsupported(line, "a second document"),
        }
    }
    if events.ends_with_block {
        node.mark_last_block();
    }
    match node {
        Node::Map(fields) => Ok(fields),
        _ => Err(FrontmatterError::NoMap),
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.disallow_directives = true;
    options.flow_nesting_limit = MAX_LEVELS.saturating_add(1);
    options.block_nesting_limit = MAX_LEVELS.saturating_add(1);
    options
}

/// The events of the parser, with the lines that they begin at.
struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Whether the last scalar is text in lines of its own.
    ends_with_block: bool,
}

/// The line of the file; the first one is before the YAML.
fn line_of(marker: &granit_parser::Marker) -> usize {
    marker.line().saturating_add(1)
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), FrontmatterError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, line_of(&span.start))),
            Some(Err(error)) => Err(syntax(&error)),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// Reads the value that begins with this event.
    fn node(&mut self, event: Event<'a>, line: usize, level: usize) -> Result<Node, FrontmatterError> {
        match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => {
                if tag.is_some() {
                    return unsupported(line, "a tag");
                }
                if *anchor != 0 {
                    return unsupported(line, "an anchor");
                }
            }
            _ => return unsupported(line, "an alias"),
        }
        if let Event::Scalar(_, style, ..) = &event {
            self.ends_with_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(Node::Plain(text.into_owned())),
            Event::Scalar(text, ..) => Ok(Node::Text(text.into_owned())),
            _ if level >= MAX_LEVELS => Err(FrontmatterError::TooDeep),
            Event::SequenceStart(..) => self.list(level.saturating_add(1)),
            _ => self.map(level.saturating_add(1)),
        }
    }

    fn list(&mut self, level: usize) -> Result<Node, FrontmatterError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::List(items)),
                (event, line) => items.push(self.node(event, line, level)?),
            }
        }
    }

    fn map(&mut self, level: usize) -> Result<Node, FrontmatterError> {
        let (mut fields, mut names) = (Vec::new(), OrderedSet::new());
        loop {
            let (event, line) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Node::Map(fields));
            }
            let key = self.node(event, line, level)?;
            if key.as_plain() == Some("<<") {
                return unsupported(line, "a merge key");
            }
            let Some(name) = key.as_text() else { return unsupported(line, "a key that is not a scalar") };
            if !names.insert(name.to_owned()) {
                return Err(FrontmatterError::Duplicate { line, key: name.into() });
            }
            let (event, line) = self.next()?;
            let value = self.node(event, line, level)?;
            fields.push((key, value));
        }
    }
}

fn unsupported<T>(line: usize, part: &'static str) -> Result<T, FrontmatterError> {
    Err(FrontmatterError::Unsupported { line, part })
}

#[cold]
fn syntax(error: &ScanError) -> FrontmatterError {
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return FrontmatterError::TooDeep;
    }
    let line = line_of(error.marker());
    FrontmatterError::Syntax { line, reason: error.kind().to_string().into() }
}

/// Reason why the frontmatter of a `SKILL.md` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontmatterError {
    /// The file does not begin with frontmatter between two lines of `---`.
    Missing,
    /// It is longer than 64 KiB.
    TooLarge,
    /// It has more than 16 levels.
    TooDeep,
    /// It is not YAML.
    Syntax {
        /// The line of the file, from 1.
        line: usize,
        /// What is wrong there.
        reason: Box<str>,
    },
    /// It has a part of YAML that is not read, since it could name other content, or be read in two ways.
    Unsupported {
        /// The line of the file, from 1.
        line: usize,
        /// The part.
        part: &'static str,
    },
    /// It is no map of names to values.
    NoMap,
    /// A map has the same key twice.
    Duplicate {
        /// The line of the file, from 1.
        line: usize,
        /// The key, as the file has it.
        key: String,
    },
    /// It lacks a field that every skill has, or it is not text.
    Field {
        /// The field.
        field: &'static str,
    },
    /// A field differs from the listing's.
    Mismatch(FrontmatterMismatch),
}

error_text! { FrontmatterError:
    Missing => "the file does not begin with frontmatter between two lines of ---";
    TooLarge => "the frontmatter is longer than 64 KiB";
    TooDeep => "the frontmatter has more than 16 levels";
    Syntax { line, reason } => "line {line} is not YAML: {reason}";
    Unsupported { line, part } => "line {line} has {part}, which frontmatter must not have";
    NoMap => "the frontmatter is not a list of fields with values";
    Duplicate { line, key } => "line {line} has the key {key:?} for the second time";
    Field { field } => "the frontmatter lacks the field {field}, or it is not text: write it, in quotes if need be";
    Mismatch(mismatch) => "{mismatch}";
}

/// Error: a field of the frontmatter differs from the listing's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontmatterMismatch {
    /// The field, as the server wrote it: names of nested maps are separated by dots.
    pub field: String,
}

error_text! { FrontmatterMismatch { field } => "the field {field:?} of the frontmatter differs from the listing's" }
