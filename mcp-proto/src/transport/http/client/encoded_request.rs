//! Requests as the peer encoded them, with the members that their headers repeat.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;

use crate::rpc::reader::{NotJson, Reader};
use crate::rpc::{Id, Raw, unescape, write};

/// An encoded request. The members that its headers repeat are found once, when it is encoded.
#[derive(Clone, Debug)]
pub(super) struct EncodedRequest {
    pub(super) body: Bytes,
    params: Range<usize>,
    /// The parameter that identifies the subject of the request, as a range of the parameters.
    subject: Option<Range<usize>>,
    /// The arguments, as a range of the parameters.
    arguments: Option<Range<usize>>,
}

impl EncodedRequest {
    /// Wraps an encoded request; `params` is where its parameters lie in `body`, and `subject` the name of the one that
    /// identifies its subject, if its method has one.
    pub(super) fn new(body: Bytes, params: Range<usize>, subject: Option<&str>) -> Self {
        let encoded = Self { body, params, subject: None, arguments: None };
        let Some(subject) = subject else { return encoded };
        let [subject, arguments] = encoded.find_params([subject, "arguments"]).unwrap_or_default();
        Self { subject, arguments, ..encoded }
    }

    /// Finds parameters, as ranges.
    fn find_params(&self, wanted: [&str; 2]) -> Result<[Option<Range<usize>>; 2], NotJson> {
        let mut found = [const { None }; 2];
        let mut reader = Reader::new(self.params());
        let mut is_first = true;
        reader.enter(b'{')?;
        while let Some(name) = reader.name(&mut is_first)? {
            let start = reader.at();
            reader.skip()?;
            if let Some(slot) = found.iter_mut().zip(wanted).find(|(_, wanted)| name == *wanted) {
                *slot.0 = Some(start..reader.at());
            }
        }
        Ok(found)
    }

    fn params(&self) -> &str {
        let params = self.body.get(self.params.clone()).unwrap_or_default();
        // It has been encoded as JSON: the default is never used.
        core::str::from_utf8(params).unwrap_or_default()
    }

    /// Returns the subject of the request: a name, a URI or a task id. `None` if its method has none.
    pub(super) fn subject(&self) -> Option<Cow<'_, str>> {
        unescape(self.params().get(self.subject.clone()?)?)
    }

    /// Returns the arguments.
    pub(super) fn arguments(&self) -> Option<Raw> {
        let arguments = self.params().get(self.arguments.clone()?)?;
        Some(Raw::from_scan(self.body.slice_ref(arguments.as_bytes())))
    }

    /// Copies the request with another id.
    pub(super) fn with_id(&self, id: i64, method: &str) -> Option<Self> {
        let mut body = Vec::with_capacity(self.body.len().saturating_add(20));
        let params = write::request(&mut body, &Id::Number(id), method, |out| {
            out.extend_from_slice(self.params().as_bytes());
            Ok(())
        });
        let params = params.ok()?;
        Some(Self { body: Bytes::from(body), params, ..self.clone() })
    }
}
