//! Fuzzing of what is read from the wire: lines, headers, envelopes, schema types and the entries of skills.

use alloc::borrow::Cow;
use core::fmt::Debug;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::codec::header::{HeaderValueError, decode, encode};
use crate::codec::{Line, Lines, media};
use crate::prelude::*;
use crate::rpc::{
    ErrorId, Frame, Id, Malformed, MalformedKind, Message, Raw, Recovered, code, read, recover, recover_ends,
    write,
};
use crate::schema::skills::{Frontmatter, Skill, uri_within};
use crate::schema::{
    At, CallToolParams, CallToolResult, CancelledParams, CompleteParams, CompleteResult, CreateMessageParams,
    CreateMessageResult, DiscoverResult, ElicitParams, ElicitResult, EmptyParams, GetPromptParams,
    GetPromptResult, InitializeParams, InitializeResult, InputRequiredResult, Json, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListRootsResult, ListToolsResult, LoggingMessageParams,
    PaginatedParams, ProgressParams, ReadResourceParams, ReadResourceResult, ResourceContents, Revision,
    SubscriptionsListenParams, WriteAt, tasks,
};
use crate::skills::SkillManifest;

/// Checks the reader and writer of messages with the input as a frame.
///
/// Nothing panics, a message read is written and read back unchanged, its id is recovered from the whole and never a
/// wrong one from parts of it, and errors are at their reported positions.
pub fn envelope(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    if read(&frame, 3).is_ok() {
        assert!(read(&frame, 128).is_ok(), "a frame within a lower limit is refused at a higher one");
    }
    match read(&frame, 128) {
        Ok(Frame::Single(message)) => {
            check_recovered_id(&frame, &message);
            check_message(&message);
        }
        Ok(Frame::Batch(batch)) => {
            let (expected, mut count) = (batch.len(), 0);
            for message in batch {
                count += 1;
                match message {
                    Ok(message) => check_message(&message),
                    Err(malformed) => check_explanation(&malformed, &frame),
                }
            }
            assert_eq!(count, expected, "a batch is shorter than it says");
        }
        Err(malformed) => check_explanation(&malformed, &frame),
    }
    let _ = recover_ends(data, data);
}

fn check_explanation(malformed: &Malformed, frame: &[u8]) {
    assert!(malformed.offset <= frame.len(), "a fault outside of the frame");
    assert!(!malformed.to_string().is_empty());
    let refused = matches!(
        malformed.kind,
        MalformedKind::NotAMessage(_) | MalformedKind::TooDeep { .. } | MalformedKind::BatchTooLong
    );
    assert_eq!(malformed.code(), if refused { code::INVALID_REQUEST } else { code::PARSE_ERROR });
    assert_eq!(malformed.kind == MalformedKind::NotUtf8, core::str::from_utf8(frame).is_err());
}

fn id(message: &Message) -> Option<&Id> {
    match message {
        Message::Request(request) => Some(&request.id),
        Message::Notification(_) => None,
        Message::Response(response) => response.id.as_ref(),
    }
}

fn check_recovered_id(frame: &[u8], message: &Message) {
    let whole = recover(frame);
    assert_eq!(whole.id.as_ref(), id(message), "another id is recovered");
    assert_eq!(whole.kind, Some(message.kind()), "another kind is recovered");
    let step = frame.len() / 64 + 1;
    for cut in (0..frame.len()).step_by(step) {
        let (head, rest) = frame.split_at(cut);
        let plausible = |part: Recovered| {
            assert!(part.id.is_none() || part.id.as_ref() == id(message), "a wrong id is recovered at {cut}");
            let kind = part.kind.is_none_or(|kind| kind == message.kind());
            assert!(kind, "a wrong kind is recovered at {cut}");
        };
        plausible(recover(head));
        plausible(recover_ends(head, rest));
        plausible(recover_ends(&head[..cut / 2], rest));
    }
}

/// Writes a message and reads it back: without the deviation that was tolerated in it.
fn check_message(message: &Message) {
    let mut message = message.clone();
    let deviation = match &mut message {
        Message::Request(_) => None,
        Message::Notification(notification) => notification.deviation.take(),
        Message::Response(response) => response.deviation.take(),
    };
    assert!(deviation.is_none_or(|deviation| matches!(
        deviation.kind,
        MalformedKind::NotAMessage(_) | MalformedKind::NotUtf8 | MalformedKind::LoneSurrogate
    )));
    let value = raw_value(&mut message).cloned();
    let raw = |out: &mut Vec<u8>| value.as_ref().map_or(Ok(()), |value| write::raw(out, value));
    let mut out = b"before".to_vec();
    let written = match &message {
        Message::Request(request) => write::request(&mut out, &request.id, &request.method, raw).map(drop),
        Message::Notification(notification) => write::notification(&mut out, &notification.method, raw),
        Message::Response(response) => match (&response.outcome, &response.id) {
            (Ok(_), Some(id)) => write::result(&mut out, id, raw),
            (Ok(_), None) => panic!("a result without an id"),
            (Err(error), id) => {
                write::error(&mut out, id.as_ref().map_or(ErrorId::Null, ErrorId::Known), error)
            }
        },
    };
    if written.is_err() {
        assert!(value.is_some_and(|value| value.validate().is_err()), "valid JSON is not written");
        assert_eq!(out, b"before", "a failed write leaves something behind");
        return;
    }
    let line = Bytes::from(out).slice(6..);
    assert!(!line.iter().any(|byte| b"\r\n".contains(byte)), "a line break is written");
    serde_json::from_slice::<serde::de::IgnoredAny>(&line).expect("what was written is JSON");
    let Ok(Frame::Single(again)) = read(&line, 128) else { panic!("what was written is not read") };
    assert_eq!(on_one_line(again), on_one_line(message), "another message comes back");
}

/// The parameters, the result, or the data of the error.
fn raw_value(message: &mut Message) -> Option<&mut Raw> {
    match message {
        Message::Request(request) => request.params.as_mut(),
        Message::Notification(notification) => notification.params.as_mut(),
        Message::Response(response) => match &mut response.outcome {
            Ok(result) => Some(result),
            Err(error) => error.data.as_mut(),
        },
    }
}

/// The message with the line breaks between its raw tokens as spaces.
fn on_one_line(mut message: Message) -> Message {
    if let Some(value) = raw_value(&mut message) {
        *value = Raw::new(value.as_str().replace(['\n', '\r'], " ")).expect("it was valid before");
    }
    message
}

/// Reads the bytes as each type.
pub fn schema(data: &[u8]) {
    macro_rules! each {
        ($($type:ty),* $(,)?) => { $( round_trip::<$type>(data); )* };
    }
    each!(
        CallToolParams,
        CallToolResult,
        CancelledParams,
        CompleteParams,
        CompleteResult,
        CreateMessageParams,
        CreateMessageResult,
        DiscoverResult,
        ElicitParams,
        ElicitResult,
        EmptyParams,
        GetPromptParams,
        GetPromptResult,
        InitializeParams,
        InitializeResult,
        InputRequiredResult,
        ListPromptsResult,
        ListResourceTemplatesResult,
        ListResourcesResult,
        ListRootsResult,
        ListToolsResult,
        LoggingMessageParams,
        PaginatedParams,
        ProgressParams,
        ReadResourceParams,
        ReadResourceResult,
        SubscriptionsListenParams,
        tasks::CreateTaskResult,
        tasks::legacy::CreateTaskResult,
    );
}

fn round_trip<T: DeserializeOwned + Serialize + WriteAt + PartialEq + Debug>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("a read value can be written");
    let again: T = serde_json::from_str(&written).expect("a written value can be read");
    let twice = serde_json::to_string(&again).expect("a read value can be written");
    assert_eq!(written, twice, "a round trip changes nothing");
    for &revision in Revision::ALL {
        serde_json::to_string(&At(&read, revision)).expect("any revision can be written");
    }
}

/// Reads the input as the value of a header, as text to encode and as lists of media types.
pub fn header(data: &[u8]) {
    check_value(&String::from_utf8_lossy(data));
    match decode(data) {
        Ok(Cow::Borrowed(value)) => {
            assert_eq!(value.as_bytes(), trimmed(data), "another value is read");
            check_value(value);
        }
        Ok(Cow::Owned(value)) => {
            check_value(&value);
            let inner = trimmed(data).strip_prefix(b"=?base64?").and_then(|data| data.strip_suffix(b"?="));
            let inner = inner.expect("a value without markers is plain");
            assert_eq!(decode_base64(inner).as_deref(), Some(value.as_bytes()), "other bytes are read");
        }
        Err(HeaderValueError::Character(at)) => {
            assert!(!is_text(&data[at..=at]), "a character is refused that a header may have");
            assert!(is_text(&data[..at]), "an earlier one would have to be refused");
        }
        Err(error) => {
            let value = trimmed(data);
            assert!(value.starts_with(b"=?base64?") && value.ends_with(b"?="), "a plain value is refused");
            let inner = value.get(9..value.len() - 2).and_then(decode_base64);
            let utf8 = inner.as_ref().is_some_and(|bytes| core::str::from_utf8(bytes).is_ok());
            assert!(!utf8, "base64 of text is refused");
            assert_eq!(inner.is_some(), error == HeaderValueError::NotUtf8);
        }
    }
    media_types(data);
}

fn is_text(value: &[u8]) -> bool {
    value.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte))
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Encodes a value and reads it back.
fn check_value(value: &str) {
    let encoded = encode(value);
    assert!(encoded.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "not for a header");
    assert_eq!(encoded.trim(), encoded, "a reader would trim it");
    assert_eq!(decode(encoded.as_bytes()).as_deref(), Ok(value), "another value comes back");
}

/// A reference decoder for Base64: whole groups of four, the last one padded, unused bits zero.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let (mut bytes, mut held, mut count) = (Vec::new(), 0u32, 0);
    for byte in &text[..text.len() - padding] {
        let value = ALPHABET.iter().position(|candidate| candidate == byte)?;
        (held, count) = (held << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((held >> count) as u8);
            held &= (1 << count) - 1;
        }
    }
    (held == 0).then_some(bytes)
}

fn media_types(data: &[u8]) {
    let full = "application/json";
    let _ = media::accepts([data], full);
    assert!(media::accepts([data, full.as_bytes()], full), "the type itself is refused");
    assert!(!media::accepts([data, b"APPLICATION/json; q=0"], "application/json") || names_type(data, full));
    let typed = [b"Application/JSON \t; ", data].concat();
    assert!(media::is_type(&typed, full), "parameters change a type");
    assert!(!media::is_type(&[b"x", data].concat(), full), "another type is taken for it");
}

/// Whether a list contains the name of the type anywhere, even with a weight of zero.
fn names_type(data: &[u8], full: &str) -> bool {
    data.to_ascii_lowercase().windows(full.len()).any(|window| window == full.as_bytes())
}

/// Checks that the lines of the input do not depend on its chunks.
///
/// Splits the input into lines as a whole, by single bytes and in chunks of the sizes that the input selects, and
/// checks that the lines are the same, and correct.
///
/// The first byte selects the limit, the second the sizes of the chunks.
pub fn lines(data: &[u8]) {
    check_chunks::<(Lines, Vec<Line>)>(data, reference_lines);
}

impl Decoder for (Lines, Vec<Line>) {
    type Decoded = Vec<Line>;

    const OTHER_BYTES: usize = 0;

    fn new(limit: usize) -> Self {
        (Lines::new(limit), Vec::new())
    }

    fn handle_input(&mut self, bytes: Bytes) {
        self.0.handle_input(bytes);
    }

    fn drain(&mut self) {
        while let Some(line) = self.0.poll_line() {
            self.1.push(line);
        }
    }

    fn buffered(&self) -> usize {
        self.0.buffered()
    }

    fn end(mut self) -> Vec<Line> {
        let last = self.0.handle_eof();
        self.drain();
        self.1.extend(last);
        assert_eq!((self.0.buffered(), self.0.poll_line()), (0, None), "something is left");
        self.1
    }
}

/// A decoder with the items that it has found.
pub(super) trait Decoder: Sized {
    type Decoded: Debug + PartialEq;

    /// The maximum buffered beside an item.
    const OTHER_BYTES: usize;

    fn new(limit: usize) -> Self;
    fn handle_input(&mut self, bytes: Bytes);
    fn drain(&mut self);
    fn buffered(&self) -> usize;
    fn end(self) -> Self::Decoded;
}

/// Checks that what is decoded does not depend on chunks, and is what the reference implementation decodes. The first
/// byte selects the limit, the second the sizes of the chunks.
pub(super) fn check_chunks<D: Decoder>(data: &[u8], reference: impl Fn(usize, &[u8]) -> D::Decoded) {
    let [limit, sizes, input @ ..] = data else { return };
    let (limit, sizes) = (usize::from(*limit) * 40, usize::from(*sizes));
    let expected = reference(limit, input);
    assert_eq!(expected, chopped::<D>(limit, input, |_| input.len().max(1)), "as a whole");
    assert_eq!(expected, chopped::<D>(limit, input, |_| 1), "by single bytes");
    assert_eq!(expected, chopped::<D>(limit, input, |n| 1 + (n * 31 + sizes) % (sizes + 1)), "in chunks");
    // All input first, then its end; the items are read only then.
    let mut queued = D::new(limit);
    input.chunks(sizes + 1).for_each(|chunk| queued.handle_input(Bytes::copy_from_slice(chunk)));
    assert_eq!(queued.buffered(), input.len());
    assert_eq!(expected, queued.end(), "in chunks that wait");
}

/// What is decoded from the input in chunks of these sizes.
pub(super) fn chopped<D: Decoder>(limit: usize, input: &[u8], size: impl Fn(usize) -> usize) -> D::Decoded {
    let mut decoder = D::new(limit);
    let (mut rest, mut n) = (input, 0);
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(size(n).min(rest.len()));
        decoder.handle_input(Bytes::copy_from_slice(chunk));
        decoder.drain();
        assert!(decoder.buffered() <= limit.max(8 * 1024) + D::OTHER_BYTES, "holds more than its limits");
        (rest, n) = (behind, n + 1);
    }
    decoder.end()
}

/// A reference implementation of [`Lines`].
fn reference_lines(limit: usize, text: &[u8]) -> Vec<Line> {
    let mut found = Vec::new();
    for (n, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let mark = if n == 0 && line.starts_with("\u{FEFF}".as_bytes()) { 3 } else { 0 };
        if line.len() > limit {
            let head = limit.min(4096);
            let tail = head.max(line.len().saturating_sub(1024));
            found.push(Line::TooLong {
                head: Bytes::copy_from_slice(&line[mark.min(head)..head]),
                tail: Bytes::copy_from_slice(&line[tail..]),
                bytes: line.len(),
            });
            continue;
        }
        let line = &line[mark..];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.iter().all(u8::is_ascii_whitespace) {
            found.push(Line::Whole(Bytes::copy_from_slice(line)));
        }
    }
    found
}

/// Reads the input as the frontmatter of a skill, and as further fields of one.
///
/// Nothing panics, the JSON of each field is valid, and the fields equal it.
pub fn frontmatter(data: &[u8]) {
    let Ok(yaml) = str::from_utf8(data) else { return };
    for main_file in [yaml.to_owned(), format!("---\nname: knots\ndescription: Ties\n{yaml}\n---\n")] {
        let Ok(frontmatter) = Frontmatter::parse(&main_file) else { continue };
        let listed = frontmatter.to_json();
        for (name, value) in &listed {
            assert_eq!(Json::new(value.as_str()).as_ref().ok(), Some(value), "{name:?} is no JSON");
        }
        assert_eq!(frontmatter.compare(&listed), Ok(()), "the fields differ from their JSON");
    }
}

/// Reads the first line of the input as the entry of a skill, and each further one as a path in it and as what a server returns.
///
/// Nothing panics. Every file of an entry that is accepted, and every path that is resolved, lies in its folder; the entry is
/// read back as it is written; and nothing is accepted as a file that the entry does not list.
pub fn skill_manifest(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let Ok(skill) = Json::new(lines.next().unwrap_or_default()).and_then(|json| json.decode::<Skill>())
    else {
        return;
    };
    let Ok(manifest) = SkillManifest::new(skill.clone()) else { return };
    let read: Skill = serde_json::from_str(&serde_json::to_string(manifest.skill()).unwrap()).unwrap();
    assert_eq!(
        (&read, SkillManifest::new(read.clone()).as_ref()),
        (&skill, Ok(&manifest)),
        "it is written differently"
    );
    for file in manifest.skill().files() {
        assert_within(&manifest, &file.uri);
        assert_eq!(manifest.check(&file.uri), Ok(()));
        assert_eq!(manifest.resolve(&file.uri).as_deref(), Ok(&*file.uri));
    }
    for child in manifest.children(manifest.folder()) {
        assert_within(&manifest, &child.uri);
    }
    let _ = manifest.requested_tools();
    for path in lines {
        let Ok(uri) = manifest.resolve(path) else { continue };
        if uri != manifest.folder() {
            assert_within(&manifest, &uri);
        }
        let contents = [ResourceContents::text(&*uri, path)];
        let is_listed = manifest.is_dynamic() || manifest.skill().file(&uri).is_some();
        assert!(manifest.verify(&uri, &contents).is_err() || is_listed, "{uri} is not listed");
    }
}

/// Checks that a URI is that of something below the folder, however it is decoded.
fn assert_within(skill: &SkillManifest, uri: &str) {
    let path = uri.strip_prefix(skill.folder()).and_then(|rest| rest.strip_prefix('/')).unwrap();
    for segment in path.split('/') {
        let decoded = crate::codec::percent_decode(segment).unwrap();
        assert!(
            !matches!(&*decoded, b"" | b"." | b"..") && !decoded.contains(&b'/'),
            "{uri} leaves the folder"
        );
    }
    assert!(!uri.contains(['?', '#', '\\']) && !uri.chars().any(char::is_control), "{uri} hides something");
    // What is within the folder when it is decoded has a URI there.
    assert!(uri_within(skill.folder(), path).is_some(), "{uri}");
}
