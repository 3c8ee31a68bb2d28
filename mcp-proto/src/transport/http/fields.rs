//! Read access to the headers of a request or an answer, whatever type the HTTP implementation uses.

use alloc::vec::Vec;

/// The headers of an HTTP message, by name.
///
/// ```
/// use mcp_proto::transport::http::Fields;
///
/// let headers = [("Content-Type", "application/json"), ("Accept", "*/*")];
/// assert_eq!(headers.get("content-type"), Some(&b"application/json"[..]));
/// assert_eq!(headers.get("origin"), None);
///
/// let collected: Vec<(String, Vec<u8>)> = vec![("Origin".into(), b"https://example.com".into())];
/// assert_eq!(collected.get("origin"), Some(&b"https://example.com"[..]));
/// ```
///
/// Pairs of a name and a value implement it, in a slice, an array or a `Vec`. With the trait in scope, `get` of an array
/// or a `Vec` of pairs takes a name; a slice's own `get` takes an index.
pub trait Fields {
    /// Calls `show` with the value of each header called `name`, in order. Names are compared case-insensitively.
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8]));

    /// Returns the value of the first header called `name`.
    fn get<'a>(&'a self, name: &str) -> Option<&'a [u8]> {
        let mut first = None;
        self.each(name, &mut |value| {
            first.get_or_insert(value);
        });
        first
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Fields for [(N, V)] {
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8])) {
        for (candidate, value) in self {
            //= C4.14 "Header names case-insensitive, values case-sensitive"
            //= S3.10 "Header names compared case-insensitively"
            if candidate.as_ref().eq_ignore_ascii_case(name) {
                show(value.as_ref());
            }
        }
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>, const COUNT: usize> Fields for [(N, V); COUNT] {
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8])) {
        self.as_slice().each(name, show);
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Fields for Vec<(N, V)> {
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8])) {
        self.as_slice().each(name, show);
    }
}

impl<F: Fields + ?Sized> Fields for &F {
    fn each<'a>(&'a self, name: &str, show: &mut dyn FnMut(&'a [u8])) {
        (**self).each(name, show);
    }
}
