//! OAuth: challenges, scopes, metadata and keys.

use std::hint::black_box;

use mcp_proto::auth::{
    Challenge, Requirement, ResourceMetadata, Scopes, ServerMetadata, canonical_resource, dpop,
    parse_token_response,
};

use super::{Shape, Work, commas, repeat, shape};

pub const SHAPES: [Shape; 9] = [
    shape("auth: parameters of a challenge", |bytes| {
        challenge(format!("Bearer {}", commas(bytes, "p@=\"v\\\"\"")))
    }),
    shape("auth: challenges", |bytes| challenge(commas(bytes, "Scheme@ token68=="))),
    shape("auth: invalid challenges", |bytes| challenge(repeat(bytes, "", "=\"\\\",@"))),
    shape("auth: scopes", |bytes| {
        let text = repeat(bytes, " ", "scope@");
        Box::new(move || {
            let scopes = Scopes::parse(&text);
            black_box(scopes.union(&scopes).contains_all(&scopes));
        })
    }),
    shape("auth: the same scopes again", |bytes| {
        let text = repeat(bytes / 2, " ", "scope@").split(' ').take(127).collect::<Vec<_>>().join(" ");
        let text = repeat(bytes, " ", &text);
        Box::new(move || drop(black_box(Scopes::parse(&text))))
    }),
    shape("auth: metadata", |bytes| {
        let scopes = commas(bytes, "\"scope@\"");
        let text = format!(
            r#"{{"resource":"https://a","issuer":"https://a","authorization_servers":[{scopes}],"scopes_supported":[{scopes}]}}"#
        );
        Box::new(move || {
            drop(black_box((
                ResourceMetadata::parse(text.as_bytes()),
                ServerMetadata::parse(text.as_bytes()),
            )));
        })
    }),
    shape("auth: an answer with a token", |bytes| {
        let text =
            format!(r#"{{"access_token":"a","token_type":"Bearer",{}}}"#, commas(bytes, "\"x@\":\"y\""));
        Box::new(move || drop(black_box(parse_token_response(200, text.as_bytes()))))
    }),
    shape("auth: a key", |bytes| {
        let text = format!(r#"{{"kty":"EC","crv":"P-256",{}}}"#, commas(bytes, "\"x@\":\"y\""));
        Box::new(move || drop(black_box(dpop::thumbprint(&text))))
    }),
    shape("auth: a long URL", |bytes| {
        let url = format!("https://a.example/{}", repeat(bytes, "/", "%41@"));
        Box::new(move || drop(black_box((canonical_resource(&url), ResourceMetadata::well_known_urls(&url)))))
    }),
];

fn challenge(header: String) -> Work {
    Box::new(move || drop(black_box((Challenge::parse_all(&header), Requirement::parse(&header)))))
}
