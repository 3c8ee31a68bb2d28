//! The access that tokens grant.

use alloc::sync::Arc;

use crate::auth::Scopes;
use crate::auth::server::GrantedAccess;

/// The access that a caller's token grants; `None` where the server demands no tokens.
pub(in crate::front) type CallerAccess = Option<GrantedAccess>;

/// The scopes that a tool requires for all arguments.
pub(super) type DeclaredScopes = Option<Arc<Scopes>>;
