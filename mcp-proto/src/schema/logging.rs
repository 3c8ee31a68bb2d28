//! Logging: log messages of servers, and the level that clients ask for.

use alloc::string::String;

use super::json::Json;
use super::object::{names, object};

names! {
    /// Severity of a log message, as in syslog (RFC 5424), the least severe first.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels>
    pub enum LoggingLevel {
        /// Debugging detail.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// A normal but significant event.
        Notice = "notice",
        /// A condition that may lead to an error.
        Warning = "warning",
        /// An error.
        Error = "error",
        /// A critical condition, such as a failed component.
        Critical = "critical",
        /// A condition that needs action at once.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

object! {
    /// The parameters of `logging/setLevel` (2025-11-25 and earlier).
    pub params SetLoggingLevelParams {
        required {
            /// The least severe level to send.
            level: LoggingLevel = "level";
        }
        optional {}
    }
}

object! {
    /// The parameters of `notifications/message`.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-message-notifications>
    pub params LoggingMessageParams {
        required {
            /// Severity of the message.
            level: LoggingLevel = "level";
            /// Log data: a string or any other JSON value.
            data: Json = "data";
        }
        optional {
            /// Name of the logger.
            logger: Option<String> = "logger";
        }
    }
}
