//! What becomes of requests that the server refuses.

use crate::auth::{Demand, Now, TokenKind};

use super::AuthClient;
use super::credentials::Via;
use super::error::AuthError;
use super::event::{Refused, Stamp, Standing};
use super::flow::{Asked, Step, Want};

impl AuthClient {
    pub(super) fn refused(&mut self, now: Now, refused: &Refused<'_>) -> Standing {
        if let Some(nonce) = refused.nonce {
            self.nonces.keep(&self.server, nonce);
        }
        let demand = refused.header.and_then(Demand::read).unwrap_or_default();
        let asked = Asked::of(refused.header.unwrap_or_default(), &demand);
        let more = refused.status == 403 && demand.is_insufficient_scope();
        if refused.status != 401 && !more {
            return Standing::Never(AuthError::Forbidden);
        }
        let final_error = || match more {
            true => AuthError::InsufficientScope { scopes: asked.scopes.clone() },
            false => AuthError::StillRefused { status: refused.status },
        };
        if refused.attempt >= self.config.resends {
            return Standing::Never(final_error());
        }
        if demand.is_use_dpop_nonce() && refused.used.is_some() {
            return match refused.nonce {
                Some(_) => Standing::Again,
                None => Standing::Never(final_error()),
            };
        }
        if self.flow.is_some() {
            return self.join(now, refused, asked, more);
        }
        if self.loaded && self.has_newer(now, refused.used) {
            return Standing::Again;
        }
        if refused.attempt >= self.config.step_ups || (more && !self.may_get_more(&asked)) {
            return Standing::Never(final_error());
        }
        let current = refused.used == Some(self.stamp) && self.record.tokens.is_some();
        // A proof may have been refused for its nonce before the token was looked at.
        let nonces =
            u32::from(self.record.tokens.as_ref().is_some_and(|tokens| tokens.kind == TokenKind::Dpop));
        let again = refused.attempt > nonces && current;
        if !more && again && self.via() == Some(Via::Grant) {
            return Standing::Never(final_error());
        }
        let want = self.want(now, refused, more);
        self.begin(now, want, asked);
        Standing::Wait
    }

    /// What a refusal makes necessary.
    fn want(&self, now: Now, refused: &Refused<'_>, more: bool) -> Want {
        if more {
            return Want::More { refused: refused.used };
        }
        Want::Token {
            refused: refused.used,
            surprise: self.record.tokens.is_none() || !self.has_ended(now),
            renew: refused.attempt == 0 || self.via() != Some(Via::Renewal),
        }
    }

    /// Whether there is a token that the request did not have.
    fn has_newer(&self, now: Now, used: Option<Stamp>) -> bool {
        self.record.tokens.is_some() && used < Some(self.stamp) && !self.has_ended(now)
    }

    /// Whether another grant could give what is asked for.
    fn may_get_more(&self, asked: &Asked) -> bool {
        asked.scopes.is_some() && (self.record.tokens.is_none() || !self.allows(asked.scopes.as_ref()))
    }

    /// Waits for the flow there is, which may have to do more now.
    fn join(&mut self, now: Now, refused: &Refused<'_>, asked: Asked, more: bool) -> Standing {
        let want = self.want(now, refused, more);
        let stamp = self.stamp;
        let newer = self.loaded && self.has_newer(now, refused.used);
        let Some(flow) = &mut self.flow else { return Standing::Again };
        match flow.want {
            Want::Logout => self.next = Some((want, asked)),
            // It has got its token already, or the request went out before there was one.
            _ if newer && !matches!(flow.want, Want::Token { refused: Some(old), .. } if old == stamp) => {
                return Standing::Again;
            }
            Want::Known => {
                flow.want = want;
                flow.asked = asked;
            }
            Want::Early if !more => {
                flow.want = match want {
                    Want::Token { refused, renew, .. } => Want::Token { refused, surprise: false, renew },
                    other => other,
                };
                flow.asked = asked;
            }
            _ => {
                let early =
                    matches!(flow.step, Step::Queued | Step::Loading | Step::Resource(_) | Step::Server(_));
                if early && flow.asked.scopes.is_some() {
                    flow.asked.scopes = match (flow.asked.scopes.take(), asked.scopes) {
                        (Some(one), Some(other)) => Some(one.union(&other)),
                        (one, other) => one.or(other),
                    };
                }
            }
        }
        Standing::Wait
    }
}
