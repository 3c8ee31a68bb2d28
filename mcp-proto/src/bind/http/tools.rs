//! Stand-in.
use alloc::string::String;
use alloc::vec::Vec;

use crate::rpc::Raw;

#[derive(Clone, Debug)]
pub struct ParamHeaders {}

#[derive(Debug)]
pub struct BadArguments;
impl core::fmt::Display for BadArguments {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("bad arguments")
    }
}

impl ParamHeaders {
    pub fn values(&self, _arguments: Option<&Raw>) -> Result<Vec<(String, String)>, BadArguments> {
        Ok(Vec::new())
    }
}
