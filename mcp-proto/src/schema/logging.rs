//! Logging: what a server has to tell, and how much of it is wanted.

use alloc::string::String;

use super::json::Json;
use super::object::{names, object};

names! {
    /// How serious a log message is, as in syslog (RFC 5424), the least serious first.
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging#log-levels>
    pub enum LoggingLevel {
        /// Detail for those who look for a fault.
        Debug = "debug",
        /// What goes on.
        Info = "info",
        /// Normal, but worth a look.
        Notice = "notice",
        /// Something may go wrong.
        Warning = "warning",
        /// Something went wrong.
        Error = "error",
        /// A part has failed.
        Critical = "critical",
        /// Something must be done at once.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

object! {
    /// The parameters of `logging/setLevel` (2025-11-25 and earlier).
    pub params SetLoggingLevelParams {
        required {
            /// The least serious level that is wanted.
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
            /// How serious it is.
            level: LoggingLevel = "level";
            /// The message: a string or anything else.
            data: Json = "data";
        }
        optional {
            /// Which part of the server speaks.
            logger: Option<String> = "logger";
        }
    }
}
