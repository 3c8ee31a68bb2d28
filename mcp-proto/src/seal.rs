//! Sealed text, which is given away and accepted back only unchanged: the request states of servers, and logins that
//! another process finishes.

use core::time::Duration;

use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::UnixTime;
use crate::prelude::*;

/// The number of random bytes in each state.
pub const NONCE_BYTES: usize = 12;

/// The prefix of sealed states, which identifies their format.
const FORMAT_PREFIX: &str = "1.";

/// The purpose of a sealed text: another use of the same key does not open it.
#[derive(Clone, Copy)]
pub(crate) enum SealPurpose {
    RequestState,
    #[cfg(feature = "auth")]
    Login,
}

impl SealPurpose {
    const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::RequestState => b"MCP request state\0",
            #[cfg(feature = "auth")]
            Self::Login => b"MCP login\0",
        }
    }
}

/// A key for sealing states: 32 random bytes. They are wiped from memory on drop, and not shown by
/// [`Debug`](core::fmt::Debug).
pub struct SealKey(Zeroizing<[u8; 32]>);

impl SealKey {
    /// Creates the key from its bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

debug_fields! { SealKey => "SealKey(…)" }

/// Seals request states and opens them again. The cipher is AES-256-GCM-SIV, which stays safe if two server instances
/// with the same key ever pick the same random number.
///
/// Instances that must open each other's states share the keys. To rotate the key: first add the new one to all
/// instances as an older one, so that each opens with it; then make it the newest on all; and remove the old key once
/// the last state sealed with it has expired.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::UnixTime;
/// use mcp_proto::peer::server::{SealError, SealKey, Sealer};
///
/// let now = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));
/// let sealer = Sealer::new(SealKey::new([1; 32]), [SealKey::new([2; 32])]);
/// // Each state with random bytes of its own.
/// let state = sealer.seal([7; 12], b"alice, tools/call transfer 5", now + Duration::from_secs(600), b"asked twice");
/// let opened = sealer.open(now, b"alice, tools/call transfer 5", &state).unwrap();
/// assert_eq!(opened.payload, b"asked twice");
/// assert_eq!(sealer.open(now, b"bob, tools/call transfer 5", &state), Err(SealError::Foreign));
/// ```
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow>
#[derive(Clone)]
pub struct Sealer {
    newest: Aes256GcmSiv,
    older: Vec<Aes256GcmSiv>,
}

/// A state that was returned unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedState {
    /// The payload that was sealed.
    pub payload: Vec<u8>,
    /// When it expires.
    pub expires: UnixTime,
    /// The random bytes that it was sealed with, which identify it.
    pub nonce: [u8; NONCE_BYTES],
}

/// Why a state is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// It was not sealed with these keys, is bound to a different request, or was changed.
    Foreign,
    /// It has expired.
    Expired,
}

error_text! { SealError:
    Foreign => "the request state is not one that this server has given for this request";
    Expired => "the request state has lapsed: send the request without it";
}

impl Sealer {
    /// Creates a sealer that seals with the newest key and opens states sealed with any of the keys.
    pub fn new(newest: SealKey, older: impl IntoIterator<Item = SealKey>) -> Self {
        let cipher = |SealKey(key): SealKey| Aes256GcmSiv::new((&*key).into());
        Self { newest: cipher(newest), older: older.into_iter().map(cipher).collect() }
    }

    /// Seals `payload` until `expires`. The resulting text opens only with the same `bound_to`.
    ///
    /// `nonce` must be random and used for no other state.
    pub fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        bound_to: &[u8],
        expires: UnixTime,
        payload: &[u8],
    ) -> String {
        self.seal_for(SealPurpose::RequestState, nonce, bound_to, expires, payload)
    }

    pub(crate) fn seal_for(
        &self,
        purpose: SealPurpose,
        nonce: [u8; NONCE_BYTES],
        bound_to: &[u8],
        expires: UnixTime,
        payload: &[u8],
    ) -> String {
        let associated = [purpose.as_bytes(), bound_to].concat();
        let millis = u64::try_from(expires.since_epoch().as_millis()).unwrap_or(u64::MAX);
        let mut sealed = Vec::from(millis.to_be_bytes());
        sealed.extend_from_slice(payload);
        // Encryption fails only beyond 64 GiB; the empty state that results never opens.
        if self.newest.encrypt_in_place(&Nonce::from(nonce), &associated, &mut sealed).is_err() {
            sealed.clear();
        }
        let mut whole = Vec::from(nonce);
        whole.append(&mut sealed);
        let mut text = String::from(FORMAT_PREFIX);
        URL_SAFE_NO_PAD.encode_string(&whole, &mut text);
        text
    }

    //= S4.4 "integrity (HMAC/AEAD) when it matters; reject what fails"
    /// Opens a returned state that was sealed with the same `bound_to`.
    ///
    /// # Errors
    /// If the state was changed or does not belong to `bound_to`, or has expired.
    pub fn open(&self, now: UnixTime, bound_to: &[u8], text: &str) -> Result<OpenedState, SealError> {
        self.open_for(SealPurpose::RequestState, now, bound_to, text)
    }

    pub(crate) fn open_for(
        &self,
        purpose: SealPurpose,
        now: UnixTime,
        bound_to: &[u8],
        text: &str,
    ) -> Result<OpenedState, SealError> {
        let text = text.strip_prefix(FORMAT_PREFIX).ok_or(SealError::Foreign)?;
        let whole = URL_SAFE_NO_PAD.decode(text).map_err(|_| SealError::Foreign)?;
        let (nonce, sealed) = whole.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Foreign)?;
        let associated = [purpose.as_bytes(), bound_to].concat();
        let mut keys = core::iter::once(&self.newest).chain(&self.older);
        let plain = keys
            .find_map(|key| {
                let mut plain = Vec::from(sealed);
                key.decrypt_in_place(&Nonce::from(*nonce), &associated, &mut plain).ok()?;
                Some(plain)
            })
            .ok_or(SealError::Foreign)?;
        let (millis, payload) = plain.split_first_chunk::<8>().ok_or(SealError::Foreign)?;
        let expires = UnixTime::from_epoch(Duration::from_millis(u64::from_be_bytes(*millis)));
        if expires <= now {
            return Err(SealError::Expired);
        }
        Ok(OpenedState { payload: payload.into(), expires, nonce: *nonce })
    }
}

debug_fields! { Sealer(self) { older = self.older.len() } }

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_epoch(Duration::from_secs(1_785_240_000));

    fn sealer() -> Sealer {
        Sealer::new(SealKey::new([1; 32]), [])
    }

    fn sealed() -> String {
        sealer().seal([9; 12], b"to this", NOW + Duration::from_secs(600), b"payload")
    }

    /// S4.4: every substituted, missing or added character is detected.
    #[test]
    fn sealer_refuses_a_changed_state() {
        let (sealer, state) = (sealer(), sealed());
        assert_eq!(sealer.open(NOW, b"to this", &state).unwrap().payload, b"payload");
        let refused =
            |text: &str| assert_eq!(sealer.open(NOW, b"to this", text), Err(SealError::Foreign), "{text}");
        for at in 0..state.len() {
            for other in ["A", "B", "_", ".", "=", "é", ""] {
                let changed = alloc::format!("{}{other}{}", &state[..at], &state[at + 1..]);
                if changed != state {
                    refused(&changed);
                }
            }
            refused(&state[..at]);
            refused(&alloc::format!("{}A{}", &state[..at], &state[at..]));
        }
        refused(&alloc::format!("{state}A"));
        refused(&alloc::format!("{state}="));
    }

    /// S4.4: every flipped bit of the decoded bytes is detected.
    #[test]
    fn sealer_refuses_any_flipped_bit() {
        let state = sealed();
        let whole = URL_SAFE_NO_PAD.decode(&state[FORMAT_PREFIX.len()..]).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let text = alloc::format!("{FORMAT_PREFIX}{}", URL_SAFE_NO_PAD.encode(changed));
            assert_eq!(sealer().open(NOW, b"to this", &text), Err(SealError::Foreign), "bit {bit}");
        }
    }

    /// S4.5
    #[test]
    fn sealer_refuses_a_state_with_another_binding() {
        for bound_to in [&b""[..], b"to that", b"to this ", b"to thi"] {
            assert_eq!(sealer().open(NOW, bound_to, &sealed()), Err(SealError::Foreign));
        }
    }

    /// S4.5
    #[test]
    fn sealed_state_expires() {
        let at = |seconds| sealer().open(NOW + Duration::from_secs(seconds), b"to this", &sealed());
        assert_eq!(at(599).unwrap().expires, NOW + Duration::from_secs(600));
        assert_eq!(at(600), Err(SealError::Expired));
    }

    /// S4.9
    #[test]
    fn sealer_opens_states_of_rotated_keys() {
        let key = |byte| SealKey::new([byte; 32]);
        let (old, between, new) =
            (Sealer::new(key(1), []), Sealer::new(key(1), [key(2)]), Sealer::new(key(2), [key(1)]));
        let seal = |sealer: &Sealer| sealer.seal([3; 12], b"", NOW + Duration::from_secs(1), b"x");
        let opens = |sealer: &Sealer, state: &str| sealer.open(NOW, b"", state).is_ok();
        assert!(opens(&between, &seal(&old)) && opens(&new, &seal(&old)));
        assert!(opens(&between, &seal(&new)) && opens(&new, &seal(&between)));
        assert!(!opens(&old, &seal(&new)) && !opens(&Sealer::new(key(2), []), &seal(&old)));
    }

    #[test]
    fn debug_output_hides_keys() {
        let shown =
            alloc::format!("{:?} {:?}", SealKey::new([0xAB; 32]), Sealer::new(SealKey::new([0xAB; 32]), []));
        assert_eq!(shown, "SealKey(…) Sealer { older: 0, .. }");
    }

    #[test]
    fn sealed_state_hides_its_payload() {
        let state = sealed();
        let whole = URL_SAFE_NO_PAD.decode(&state[FORMAT_PREFIX.len()..]).unwrap();
        assert!(!whole.windows(4).any(|part| part == b"what"));
    }
}
