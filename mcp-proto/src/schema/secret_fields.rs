//! Form fields that request a secret, by their names.

use alloc::string::String;
use alloc::vec::Vec;

use super::elicitation::ElicitSchema;
use super::primitive::PrimitiveSchema;

/// The words with which the name of a secret ends.
const SECRETS: [&[&str]; 17] = [
    &["password"],
    &["passwd"],
    &["passphrase"],
    &["passcode"],
    &["secret"],
    &["apikey"],
    &["api", "key"],
    &["secret", "key"],
    &["private", "key"],
    &["api", "token"],
    &["auth", "token"],
    &["access", "token"],
    &["bearer", "token"],
    &["refresh", "token"],
    &["card", "number"],
    &["cvv"],
    &["cvc"],
];

impl ElicitSchema {
    /// The first text field whose name or title ends like that of a secret: a password, an API key, an access token, a
    /// card number. Servers must not request secrets by forms, because the client sees the answers; they send the user
    /// to a page instead.
    ///
    /// Other languages and unusual names are not recognized.
    ///
    /// ```
    /// use mcp_proto::schema::{ElicitSchema, StringSchema};
    ///
    /// let form = |name: &'static str| ElicitSchema::new([(name, StringSchema::new().into())]);
    /// assert_eq!(form("apiKey").secret_field(), Some("apiKey"));
    /// assert_eq!(form("password_hint").secret_field(), None);
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#user-interaction-model>
    pub fn secret_field(&self) -> Option<&str> {
        self.properties.iter().find_map(|(name, field)| {
            let PrimitiveSchema::String(text) = field else { return None };
            let is_secret = names_secret(name) || text.title.as_deref().is_some_and(names_secret);
            is_secret.then_some(name)
        })
    }
}

fn names_secret(name: &str) -> bool {
    let words = words(name);
    SECRETS.iter().any(|secret| {
        words.len() >= secret.len()
            && words.iter().rev().zip(secret.iter().rev()).all(|(word, end)| word == end)
    })
}

/// The words of a name in `snake_case`, `camelCase` or plain text, in lower case and without digits.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        let is_boundary = !letter.is_alphabetic() || (letter.is_uppercase() && was_lower);
        if is_boundary && !word.is_empty() {
            words.push(core::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
