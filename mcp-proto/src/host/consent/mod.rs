//! Approval of the servers that a project configures.
//!
//! A project comes from others: opening it must not start their programs. A server of a project starts nothing,
//! connects nowhere and reads no variable until the user has approved it:
//!
//! 1. [`ServerEntry::permit`](super::config::ServerEntry::permit) returns an [`ApprovalRequest`] for a project's server that is not approved.
//! 2. The application shows the request: what would run, where, with which variables. Without a user
//!    to ask, the server stays off.
//! 3. If the user approves exactly that, [`ApprovalRequest::approve`] makes the [`Approval`], which is stored outside
//!    the project.
//! 4. The [`Permit`] that `permit` returns from then on lists the lookups of a start and resolves the entry.
//!
//! An approval is bound to the path of the file, the [folder](super::config::Source::folder) of the project, in which
//! the program runs unless its entry names another, the name of the server and everything that the entry means, except
//! whether it is enabled, and to the variables of its `envFile`: any change asks again. The content of the program and of
//! other files is not part of it.
//!
//! The names in an `envFile` are part of the request. A file [in the project](ApprovalRequest::env_file) is read before the
//! request is shown, one elsewhere only once the server is approved, which then asks
//! [again](Permit::env_file_request).

mod approval;
mod facts;
mod permit;
mod request;

pub use approval::{Approval, Approvals, ApprovalsError};
pub use permit::Permit;
pub use request::{ApprovalRequest, ApprovalWarning, RequestLine};
