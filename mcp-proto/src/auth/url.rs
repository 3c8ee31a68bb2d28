//! The URLs that OAuth deals with: short enough, and of HTTP.

use super::{ReachError, URL_BYTES};
use crate::url::HttpUrlError;

pub(crate) use crate::url::{Host, HttpUrl};

/// Takes a URL apart that others may have written.
pub(crate) fn parse(url: &str) -> Result<HttpUrl<'_>, ReachError> {
    if url.len() > URL_BYTES {
        return Err(ReachError::TooLong);
    }
    HttpUrl::parse(url).map_err(|error| match error {
        HttpUrlError::Syntax => ReachError::Syntax,
        HttpUrlError::Scheme => ReachError::Scheme,
        HttpUrlError::Host => ReachError::Host,
        HttpUrlError::NumericHost => ReachError::NumericHost,
    })
}
