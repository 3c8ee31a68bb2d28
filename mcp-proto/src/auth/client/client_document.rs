//! The client ID metadata document: the client's self-description at the URL that is its id.

use alloc::string::String;

use serde::Serialize;

use super::config::AuthConfig;

#[derive(Serialize)]
struct ClientDocument<'a> {
    client_id: &'a str,
    client_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_uri: Option<&'a str>,
    redirect_uris: [&'a str; 1],
    grant_types: [&'static str; 2],
    response_types: [&'static str; 1],
    token_endpoint_auth_method: &'static str,
    application_type: &'static str,
}

impl AuthConfig {
    /// The document to publish at [`client_id_document`](Self::client_id_document), as JSON: serve it there with the
    /// media type `application/json`. `None` if no such URL is configured.
    ///
    /// It describes a public client, without a secret or key.
    ///
    /// ```
    /// use mcp_proto::auth::client::AuthConfig;
    ///
    /// let mut config = AuthConfig::new("my host", "http://127.0.0.1:4870/callback");
    /// config.client_id_document = Some("https://host.example.com/client.json".into());
    /// let document = config.client_document().unwrap();
    /// assert!(document.contains(r#""client_id":"https://host.example.com/client.json""#));
    /// assert!(document.contains(r#""redirect_uris":["http://127.0.0.1:4870/callback"]"#));
    /// ```
    ///
    /// <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>
    pub fn client_document(&self) -> Option<String> {
        //= C12.18 "document has client_id (= URL), client_name, redirect_uris"
        let document = ClientDocument {
            client_id: self.client_id_document.as_deref()?,
            client_name: &self.client.name,
            client_uri: self.client.uri.as_deref(),
            logo_uri: self.client.logo.as_deref(),
            redirect_uris: [&self.redirect_uri],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none",
            application_type: self.client.application_type.as_str(),
        };
        serde_json::to_string(&document).ok()
    }
}
