//! The URLs that OAuth deals with: short enough, and of HTTP.

use super::{FetchPolicyError, URL_BYTES};
use crate::url::HttpUrlError;

pub(crate) use crate::url::{Host, HttpUrl};

/// Takes a URL apart that others may have written.
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
