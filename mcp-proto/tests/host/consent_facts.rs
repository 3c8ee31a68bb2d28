//! What an approval is bound to, and what it says, beyond the text of the entry.

use mcp_proto::Secret;
use mcp_proto::host::config::{
    Answers, ConfigFile, Lookup, ResolveError, ResolveErrorKind, ResolvedSpec, ServerEntry,
};
use mcp_proto::host::consent::{ApprovalRequest, ApprovalWarning, Approvals};

use super::config::{entry, project};

const PATH: &str = "/work/app/.mcp.json";

fn file(path: &str, json: &str) -> ConfigFile {
    project(path, &format!(r#"{{ "mcpServers": {{ "one": {json} }} }}"#))
}

fn server(path: &str, json: &str) -> ServerEntry {
    let file = file(path, json);
    assert_eq!(file.errors, []);
    file.servers.into_iter().next().unwrap()
}

fn request(server: &ServerEntry) -> ApprovalRequest {
    *server.permit(&Approvals::new()).unwrap_err()
}

fn approved(request: &ApprovalRequest) -> Approvals {
    let mut approvals = Approvals::new();
    approvals.insert(request.approve());
    approvals
}

/// Answers every lookup of a server by the value of its name, and resolves it.
fn resolve(
    server: &ServerEntry,
    approvals: &Approvals,
    environment: &[(&str, &str)],
) -> Result<ResolvedSpec, ResolveError> {
    let permit = server.permit(approvals).unwrap();
    let mut answers = Answers::new();
    loop {
        let lookups = permit.unanswered(&answers);
        if lookups.is_empty() {
            return permit.resolve(&answers);
        }
        for lookup in lookups {
            let name = match &lookup {
                Lookup::Variable(name) | Lookup::EnvFile(name) => name.clone(),
                Lookup::Predefined(variable) => variable.as_str().into(),
                other => panic!("{other:?}"),
            };
            let value = environment.iter().find(|(known, _)| *known == name);
            answers.insert(lookup, value.map(|(_, value)| Secret::new(*value)));
        }
    }
}

fn with_resource(url: &str, resource: &str) -> String {
    format!(r#"{{ "url": "{url}", "oauth": {{ "resource": "{resource}" }} }}"#)
}

#[test]
fn project_does_not_choose_another_servers_tokens() {
    for (url, resource) in [
        ("https://evil.example/mcp", "https://mail.example/"),
        ("https://shared.example/evil/mcp", "https://shared.example/mail"),
        ("https://shared.example/mail-evil", "https://shared.example/mail"),
        ("https://shared.example/mail", "https://shared.example/mail/deeper"),
        ("https://shared.example/mail/../evil/mcp", "https://shared.example/mail"),
        ("https://shared.example/mail/%2E%2e%2Fevil", "https://shared.example/mail"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail?tenant=1"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail#x"),
        ("https://shared.example:8443/mail", "https://shared.example/mail"),
        ("https://shared.example/mail", "http://shared.example/mail"),
        ("https://shared.example/mail", "https://me@shared.example/mail"),
        ("https://shared.example/mail", "mail"),
    ] {
        let refused = file(PATH, &with_resource(url, resource));
        assert_eq!(refused.servers.len(), 0, "{url} {resource}");
        let error = refused.errors[0].to_string();
        assert!(error.contains(r#"server "one": "oauth.resource": "#) && error.contains("parent"), "{error}");
    }
    for (url, resource) in [
        ("https://shared.example/mail/mcp", "https://shared.example/mail/mcp"),
        ("https://shared.example/mail/mcp", "https://shared.example/mail/"),
        ("https://shared.example/mail/mcp", "HTTPS://Shared.example:443/mail"),
        ("https://shared.example/mail?a=1", "https://shared.example/mail?a=1"),
        ("https://shared.example", "https://shared.example/"),
        ("wss://shared.example/mail/mcp", "https://shared.example/mail"),
    ] {
        let server = server(PATH, &with_resource(url, resource));
        assert!(request(&server).to_string().contains(&format!("logs in for the resource: {resource}")));
    }
}

#[test]
fn url_with_references_does_not_get_another_servers_tokens() {
    let server = server(PATH, &with_resource("https://${HOST_NAME}/a/mcp", "https://mail.example/a"));
    let approvals = approved(&request(&server));
    let error = resolve(&server, &approvals, &[("HOST_NAME", "evil.example")]).unwrap_err();
    assert_eq!((error.member.as_str(), error.kind), ("oauth.resource", ResolveErrorKind::Resource));
    assert!(resolve(&server, &approvals, &[("HOST_NAME", "mail.example")]).is_ok());
}

#[test]
fn approval_warns_of_a_login_that_the_project_chooses() {
    let json = r#"{ "url": "https://a.example/mcp", "oauth": {
        "issuer": "https://login.example", "clientId": "x", "resource": "https://a.example" } }"#;
    let members: Vec<_> = ["issuer", "clientId", "resource"].map(ApprovalWarning::ChoosesLogin).into();
    assert_eq!(request(&server(PATH, json)).warnings(), members);
    assert_eq!(ApprovalRequest::new(&entry(json)).warnings(), []);
}

#[test]
fn users_entry_with_a_foreign_resource_is_warned_of() {
    let own = entry(&with_resource("https://a.example/mcp", "https://b.example/"));
    let warnings = ApprovalRequest::new(&own).warnings().to_vec();
    assert_eq!(warnings, [ApprovalWarning::ForeignResource("https://b.example/".into())]);
    assert!(own.permit(&Approvals::new()).is_ok());
}
