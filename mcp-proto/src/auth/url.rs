//! Parsing of OAuth URLs, which must be HTTP URLs of bounded length.

use super::{FetchPolicyError, URL_BYTES};
use crate::url::HttpUrlError;

pub(crate) use crate::url::{Host, HttpUrl};

/// Parses an untrusted URL.
pub(crate) fn parse(url: &str) -> Result<HttpUrl<'_>, FetchPolicyError> {
    if url.len() > URL_BYTES {
        return Err(FetchPolicyError::TooLong);
    }
    HttpUrl::parse(url).map_err(|error| match error {
        HttpUrlError::Syntax => FetchPolicyError::Syntax,
        HttpUrlError::Scheme => FetchPolicyError::Scheme,
        HttpUrlError::Host => FetchPolicyError::Host,
        HttpUrlError::NumericHost => FetchPolicyError::NumericHost,
    })
}
