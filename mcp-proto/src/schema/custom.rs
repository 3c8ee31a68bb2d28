//! Methods and notifications that the protocol does not define.

use super::lifecycle::{CustomParams, CustomResult};
use super::method::{Direction, Method, MethodInfo, NotificationInfo};

/// A method whose name is known only at run time: the type of the front's requests by name.
///
/// Its parameters and its result are objects of any members, which are passed on unchanged.
#[derive(Clone, Copy, Debug)]
pub enum CustomMethod {}

impl Method for CustomMethod {
    const INFO: &'static MethodInfo = &MethodInfo::custom("a custom method").in_direction(Direction::Both);
    type Params = CustomParams;
    type Result = CustomResult;
}

impl MethodInfo {
    /// Sets the direction of the requests. A request of a server to its client reaches clients of 2025-11-25 and
    /// earlier only.
    ///
    /// ```
    /// use mcp_proto::schema::{Direction, MethodInfo};
    ///
    /// const CONFIRM: &MethodInfo = &MethodInfo::custom("com.example/confirm").in_direction(Direction::ServerToClient);
    /// assert_eq!(CONFIRM.direction, Direction::ServerToClient);
    /// ```
    #[must_use]
    pub const fn in_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }
}

impl NotificationInfo {
    /// Creates a notification that the protocol does not define, such as an extension's, in both directions and at all
    /// revisions.
    ///
    /// ```
    /// use mcp_proto::schema::{CustomParams, Notification, NotificationInfo};
    ///
    /// /// The paper of a printer runs low.
    /// enum PaperLow {}
    ///
    /// impl Notification for PaperLow {
    ///     const INFO: &'static NotificationInfo = &NotificationInfo::custom("com.example/paperLow");
    ///     type Params = CustomParams;
    /// }
    /// assert_eq!(PaperLow::NAME, "com.example/paperLow");
    /// ```
    pub const fn custom(name: &'static str) -> Self {
        Self { name, direction: Direction::Both, ..Self::BASE }
    }
}
