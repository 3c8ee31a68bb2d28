//! Fuzzing of JSON-RPC envelopes.

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::rpc::{
    ErrorId, Frame, Id, Malformed, MalformedKind, Message, Raw, Recovered, code, read, recover, recover_ends,
    write,
};

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
            check_round_trip(&message);
        }
        Ok(Frame::Batch(batch)) => {
            let (expected, mut count) = (batch.len(), 0);
            for message in batch {
                count += 1;
                match message {
                    Ok(message) => check_round_trip(&message),
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
fn check_round_trip(message: &Message) {
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
    let message = &message;
    let mut out = b"before".to_vec();
    let raw = |value: Option<&Raw>, out: &mut Vec<u8>| value.map_or(Ok(()), |value| write::raw(out, value));
    let (written, value) = match message {
        Message::Request(request) => {
            let params = request.params.as_ref();
            let written = write::request(&mut out, &request.id, &request.method, |out| raw(params, out));
            (written.map(drop), params)
        }
        Message::Notification(notification) => {
            let params = notification.params.as_ref();
            (write::notification(&mut out, &notification.method, |out| raw(params, out)), params)
        }
        Message::Response(response) => match (&response.outcome, &response.id) {
            (Ok(result), Some(id)) => {
                (write::result(&mut out, id, |out| raw(Some(result), out)), Some(result))
            }
            (Ok(_), None) => panic!("a result without an id"),
            (Err(error), id) => {
                let id = id.as_ref().map_or(ErrorId::Null, ErrorId::Known);
                (write::error(&mut out, id, error), error.data.as_ref())
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
    assert_eq!(on_one_line(again), on_one_line(message.clone()), "another message comes back");
}

/// The message with the line breaks between its raw tokens as spaces.
fn on_one_line(mut message: Message) -> Message {
    let value = match &mut message {
        Message::Request(request) => request.params.as_mut(),
        Message::Notification(notification) => notification.params.as_mut(),
        Message::Response(response) => match &mut response.outcome {
            Ok(result) => Some(result),
            Err(error) => error.data.as_mut(),
        },
    };
    if let Some(value) = value {
        *value = Raw::new(value.as_str().replace(['\n', '\r'], " ")).expect("it was valid before");
    }
    message
}
