//! An envelope as serde_json reads it in one pass.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[expect(dead_code, reason = "reading an envelope finds all its members")]
pub(crate) struct Envelope<'a> {
    pub(crate) jsonrpc: &'a str,
    pub(crate) id: Option<i64>,
    pub(crate) method: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}
