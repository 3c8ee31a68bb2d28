//! The entries of `_meta` without `std`, which has the lock that [`LazyMap`] needs to be parsed later.

use super::containers::{Map, ParsedMeta};
use super::json::Json;
use super::read::{Read as _, ReadResult};
use crate::rpc::json_reader::{NotJson, Reader};

/// The entries of `_meta`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LazyMap(Map<Json>);

impl LazyMap {
    pub(super) const fn new() -> Self {
        Self(Map::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self) -> &Map<Json> {
        &self.0
    }

    pub(super) fn get_mut(&mut self) -> &mut Map<Json> {
        &mut self.0
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ReadResult<Self>, NotJson> {
        ParsedMeta::read(reader).map(|read| read.map(|entries| Self(entries.0)))
    }
}

impl From<Map<Json>> for LazyMap {
    fn from(entries: Map<Json>) -> Self {
        Self(entries)
    }
}
