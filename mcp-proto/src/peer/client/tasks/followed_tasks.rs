//! The tasks that requests follow.

use alloc::vec::Vec;

use crate::peer::RequestId;
use crate::peer::client::input_requests::InputSetId;

use super::follower::Follower;

/// How a request is related to the task that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskOrigin {
    /// The request has become the task; cancelling the request cancels the task.
    ByRequest,
    /// The task existed before the request.
    Existing,
}

/// The task that a request follows.
#[derive(Debug)]
pub(in crate::peer::client) struct FollowedTask {
    pub(in crate::peer::client) follower: Follower,
    pub(super) origin: TaskOrigin,
    /// The `tasks/result` request in flight.
    pub(super) result: Option<RequestId>,
    /// The input sets that the application was asked for on behalf of the task.
    pub(super) input_sets: Vec<InputSetId>,
}

impl FollowedTask {
    pub(super) fn new(follower: Follower, origin: TaskOrigin) -> Self {
        Self { follower, origin, result: None, input_sets: Vec::new() }
    }
}
