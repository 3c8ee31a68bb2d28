//! Checks that a host makes before it acts on a server's URLs, icons, tool annotations, app pages and roots.

use mcp_proto::consent::{
    Behaviour, IconPolicy, IconSource, ImageKind, Trust, UnsafeIconError, UnsafeUrlError, UrlConsent,
    UrlWarning,
};
use mcp_proto::schema::{ElicitUrlParams, Icon, Root, RootError, Tool, ToolAnnotations, apps};
use proptest::prelude::*;
use serde_json::json;

// --- URLs of elicitation ---

/// C10.6: the whole URL, unchanged, and the host within it.
#[test]
fn url_consent_returns_the_whole_url_and_its_host() {
    let url = "HTTPS://User@Accounts.Example.COM:8443/a%20b?state=$(x)&y='z'#part";
    let page = UrlConsent::new(url).unwrap();
    assert_eq!(page.url(), url);
    assert_eq!(page.host(), "Accounts.Example.COM");
    assert_eq!(page.parts(), ["HTTPS://User@", "Accounts.Example.COM", ":8443/a%20b?state=$(x)&y='z'#part"]);
    let from_params = UrlConsent::from_params(&ElicitUrlParams::new("Log in", url)).unwrap();
    assert_eq!(from_params, page);
}

/// C10.7
#[test]
fn url_consent_warns_about_suspicious_urls() {
    use UrlWarning::{EncodedHost, NumericHost, Punycode, Unencrypted, UserInfo};
    let cases: &[(&str, &[UrlWarning])] = &[
        ("https://example.com/", &[]),
        ("https://example.com.evil.example/", &[]),
        ("http://example.com/", &[Unencrypted]),
        ("http://localhost:3000/", &[]),
        ("http://127.0.0.1/", &[]),
        ("http://127.evil.example/", &[Unencrypted]),
        ("http://127.0.0.1.nip.example/", &[Unencrypted]),
        ("http://[::1]:8080/", &[]),
        ("http://dev.localhost/", &[]),
        ("https://xn--pple-43d.com/", &[Punycode]),
        ("https://login.XN--80AK6AA92E.com/", &[Punycode]),
        ("https://axn--b.com/", &[]),
        ("https://example.com@evil.example/", &[UserInfo]),
        ("https://@example.com/", &[UserInfo]),
        ("https://ex%61mple.com/", &[EncodedHost]),
        ("https://93.184.216.34/", &[NumericHost]),
        ("https://1572395042/", &[NumericHost]),
        ("https://0x5db8d822/", &[NumericHost]),
        ("https://93.184.0xd822/", &[NumericHost]),
        ("https://93.184.216.34./", &[NumericHost]),
        ("https://[2606:2800::1]/", &[NumericHost]),
        ("https://1password.com/", &[]),
    ];
    for (url, warnings) in cases {
        assert_eq!(UrlConsent::new(url).unwrap().warnings(), *warnings, "{url}");
    }
}

/// C10.6, C13.3
#[test]
fn url_consent_rejects_unsafe_urls() {
    for (url, fault) in [
        ("javascript:alert(1)", UnsafeUrlError::Scheme),
        ("JavaScript://example.com/%0Aalert(1)", UnsafeUrlError::Scheme),
        ("data:text/html,<script>", UnsafeUrlError::Syntax),
        ("data:text/html,hello", UnsafeUrlError::Scheme),
        ("file:///etc/passwd", UnsafeUrlError::Scheme),
        ("vbscript:x", UnsafeUrlError::Scheme),
        ("ms-msdt:/id", UnsafeUrlError::Scheme),
        ("ftp://example.com/", UnsafeUrlError::Scheme),
        ("https:/example.com", UnsafeUrlError::Host),
        ("https:///example.com", UnsafeUrlError::Host),
        ("https:example.com", UnsafeUrlError::Host),
        ("https://:80/", UnsafeUrlError::Host),
        ("example.com", UnsafeUrlError::Syntax),
        ("", UnsafeUrlError::Syntax),
        // Browsers treat a backslash as a slash and would visit another host.
        (r"https://example.com\@evil.example/", UnsafeUrlError::Syntax),
        ("https://example.com/\" & calc", UnsafeUrlError::Syntax),
        ("https://example.com/`id`", UnsafeUrlError::Syntax),
        ("https://example.com/a|b", UnsafeUrlError::Syntax),
        ("https://example.com/a b", UnsafeUrlError::Syntax),
        ("https://example.com/\n", UnsafeUrlError::Syntax),
        (" https://example.com/", UnsafeUrlError::Syntax),
        ("https://example.com/%zz", UnsafeUrlError::Syntax),
        // Right-to-left override, and letters that look like others.
        ("https://example.com/\u{202e}gpj.exe", UnsafeUrlError::Syntax),
        ("https://\u{0430}pple.com/", UnsafeUrlError::Syntax),
    ] {
        assert_eq!(UrlConsent::new(url), Err(fault), "{url:?}");
    }
}

/// C13.3: a shell reads any accepted URL as one word.
#[cfg(unix)]
#[test]
fn shell_reads_the_url_as_one_word() {
    for (url, word) in [
        (
            "https://example.com/$(id);id&id?a=!x*~'id'#(x)",
            "https://example.com/$(id);id&id?a=!x*~%27id%27#(x)",
        ),
        ("https://example.com/'$(id)'", "https://example.com/%27$(id)%27"),
    ] {
        let script = format!("printf %s {}", UrlConsent::new(url).unwrap().shell_word());
        let output = std::process::Command::new("sh").arg("-c").arg(script).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
    }
}

// --- Icons ---

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const PNG_BASE64: &str = "iVBORw0KGgouLi4u";

/// C9.16
#[test]
fn icon_policy_rejects_schemes_other_than_https_and_data() {
    let policy = IconPolicy::for_server("https://example.com/mcp");
    for src in [
        "javascript:alert(1)",
        "file:///icon.png",
        "ftp://example.com/i.png",
        "ws://example.com/i.png",
        "http://example.com/i.png",
        "vscode://icon",
        "blob:https://example.com/1",
    ] {
        assert_eq!(policy.source(&Icon::new(src)), Err(UnsafeIconError::Scheme), "{src}");
    }
    for src in ["icon.png", "//example.com/i.png", "https://", "https://example.com/ i.png", ""] {
        assert_eq!(policy.source(&Icon::new(src)), Err(UnsafeIconError::Syntax), "{src}");
    }
}

/// C9.16
#[test]
fn icon_policy_accepts_only_the_servers_and_trusted_origins() {
    let mut policy = IconPolicy::for_server("https://Example.com/mcp");
    policy.trusted.push("https://cdn.example.net:8443".into());
    for src in
        ["https://example.com/i.png", "HTTPS://EXAMPLE.com:443/i.png", "https://cdn.example.net:8443/i.png"]
    {
        assert_eq!(policy.source(&Icon::new(src)), Ok(IconSource::Fetch(src)));
    }
    for src in [
        "https://example.com.evil.example/i.png",
        "https://sub.example.com/i.png",
        "https://example.com:444/",
        "https://cdn.example.net/i.png",
        "https://example.com@evil.example/",
    ] {
        assert_eq!(policy.source(&Icon::new(src)), Err(UnsafeIconError::Origin), "{src}");
    }
    // A child process has no origin, and the origin of a server at `http` is not that of `https`.
    let icon = Icon::new("https://example.com/i.png");
    assert_eq!(IconPolicy::default().source(&icon), Err(UnsafeIconError::Origin));
    assert_eq!(IconPolicy::for_server("http://example.com/").source(&icon), Err(UnsafeIconError::Origin));
}

/// C9.16
#[test]
fn icon_policy_rejects_redirects_to_other_origins() {
    let policy = IconPolicy::default();
    let from = "https://example.com/i.png";
    assert_eq!(policy.redirect(from, "https://example.com/other.png"), Ok(()));
    assert_eq!(policy.redirect(from, "https://evil.example/i.png"), Err(UnsafeIconError::Origin));
    assert_eq!(policy.redirect(from, "https://example.com:8443/i.png"), Err(UnsafeIconError::Origin));
    for to in ["http://example.com/i.png", "javascript:x", "data:image/png;base64,AAAA", "file:///etc/passwd"]
    {
        assert_eq!(policy.redirect(from, to), Err(UnsafeIconError::Scheme), "{to}");
    }
    assert_eq!(policy.redirect(from, "/other.png"), Err(UnsafeIconError::Syntax));
}

/// C9.16: the first bytes decide, not the declared media type.
#[test]
fn icon_policy_detects_the_image_kind_by_its_first_bytes() {
    let mut policy = IconPolicy::default();
    let jpeg = b"\xff\xd8\xff\xe0....".as_slice();
    let webp = b"RIFF....WEBPVP8 ".as_slice();
    for (declared, bytes, kind) in [
        (Some("image/png"), PNG, ImageKind::Png),
        (None, PNG, ImageKind::Png),
        (Some("IMAGE/JPG"), jpeg, ImageKind::Jpeg),
        (Some("image/jpeg; charset=binary"), jpeg, ImageKind::Jpeg),
        (Some("application/octet-stream"), webp, ImageKind::Webp),
    ] {
        assert_eq!(policy.image(declared, bytes), Ok(kind));
    }
    assert_eq!(policy.image(Some("image/png"), jpeg), Err(UnsafeIconError::Mismatch));
    assert_eq!(policy.image(Some("image/svg+xml"), PNG), Err(UnsafeIconError::Mismatch));
    for bytes in [b"GIF89a..".as_slice(), b"<html><svg>", b"", b"\x89PN", b"MZ\x90"] {
        assert_eq!(policy.image(Some("image/png"), bytes), Err(UnsafeIconError::Kind), "{bytes:?}");
    }
    // SVG can run scripts, so it must be enabled explicitly.
    let svg =
        b"\xef\xbb\xbf<?xml version=\"1.0\"?><!-- <svg> --><!DOCTYPE svg>\n<svg xmlns=\"x\"/>".as_slice();
    assert_eq!(policy.image(Some("image/svg+xml"), svg), Err(UnsafeIconError::Kind));
    policy.kinds.push(ImageKind::Svg);
    assert_eq!(policy.image(Some("image/svg+xml"), svg), Ok(ImageKind::Svg));
    assert_eq!(ImageKind::detect(b"<svgx/>"), None);
    assert_eq!(ImageKind::detect(b"<!-- <svg>"), None);
}

/// C9.16
#[test]
fn icon_policy_accepts_inline_icons_up_to_the_size_limit() {
    let mut policy = IconPolicy::default();
    let inline = |data: &str| Icon::new(format!("data:image/png;base64,{data}"));
    assert_eq!(policy.source(&inline(PNG_BASE64)), Ok(IconSource::Inline(ImageKind::Png, PNG.to_vec())));
    let upper = Icon::new(format!("DATA:image/png;BASE64,{PNG_BASE64}"));
    assert_eq!(policy.source(&upper), Ok(IconSource::Inline(ImageKind::Png, PNG.to_vec())));
    assert_eq!(policy.source(&inline("####")), Err(UnsafeIconError::Syntax));
    assert_eq!(policy.source(&Icon::new("data:image/png,abc")), Err(UnsafeIconError::Syntax));
    let lying = Icon::new(format!("data:image/jpeg;base64,{PNG_BASE64}"));
    assert_eq!(policy.source(&lying), Err(UnsafeIconError::Mismatch));
    policy.max_bytes = PNG.len();
    assert!(policy.source(&inline(PNG_BASE64)).is_ok());
    policy.max_bytes -= 1;
    let limit = policy.max_bytes;
    assert_eq!(policy.source(&inline(PNG_BASE64)), Err(UnsafeIconError::TooLong { limit }));
    assert_eq!(policy.source(&inline(&"A".repeat(4_000_000))), Err(UnsafeIconError::TooLong { limit }));
}

// --- Tools ---

/// C9.3, C9.4
#[test]
fn behaviour_ignores_annotations_of_untrusted_servers() {
    let tool = |hints: serde_json::Value| {
        let annotations: ToolAnnotations = serde_json::from_str(&hints.to_string()).unwrap();
        Tool::new("t", "A tool", json!({"type": "object"})).with_annotations(annotations)
    };
    let harmless = tool(json!({"readOnlyHint": true, "destructiveHint": false, "openWorldHint": false}));
    let trusted = Behaviour::from_tool(&harmless, Trust::Trusted);
    assert!(trusted.read_only && !trusted.destructive && trusted.idempotent && !trusted.open_world);
    assert!(!trusted.needs_confirmation());

    let untrusted = Behaviour::from_tool(&harmless, Trust::Untrusted);
    let worst = Behaviour { read_only: false, destructive: true, idempotent: false, open_world: true };
    assert_eq!(untrusted, worst);
    assert!(untrusted.needs_confirmation());
    assert_eq!(Behaviour::from_tool(&tool(json!({})), Trust::Trusted), worst);
    // A hint of the wrong type counts as absent.
    assert_eq!(Behaviour::from_tool(&tool(json!({"readOnlyHint": "yes"})), Trust::Trusted), worst);

    let adds = tool(json!({"destructiveHint": false, "openWorldHint": false}));
    assert!(!Behaviour::from_tool(&adds, Trust::Trusted).needs_confirmation());
    assert!(
        Behaviour::from_tool(&tool(json!({"destructiveHint": false})), Trust::Trusted).needs_confirmation()
    );
}

/// C14.11
#[test]
fn tool_page_must_have_a_ui_uri() {
    let tool = |meta: serde_json::Value| -> Tool {
        serde_json::from_str(
            &json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta}).to_string(),
        )
        .unwrap()
    };
    let page = |meta| tool(meta).page();
    assert_eq!(page(json!({"ui": {"resourceUri": "ui://t/page"}})).as_deref(), Some("ui://t/page"));
    assert_eq!(page(json!({"ui/resourceUri": "ui://t/old"})).as_deref(), Some("ui://t/old"));
    for meta in [
        json!({"ui": {"resourceUri": "https://evil.example/"}}),
        json!({"ui": {"resourceUri": "file:///x"}}),
        json!({"ui": {"resourceUri": 7}}),
        json!({"ui": "ui://t"}),
        json!({"ui": {"resourceUri": "ui://"}}),
        json!({}),
    ] {
        assert_eq!(page(meta.clone()), None, "{meta}");
    }
    assert!(tool(json!({"ui": {"visibility": ["model", "app"]}})).is_for_model());
    assert!(!tool(json!({"ui": {"visibility": ["app"]}})).is_for_model());
    assert!(tool(json!({})).is_for_model());
    // A mistake in one member does not matter to the other.
    let odd = tool(json!({"ui": {"resourceUri": "ui://t/page", "visibility": "app"}}));
    assert_eq!((odd.page().as_deref(), odd.is_for_model()), (Some("ui://t/page"), false));
    assert!(!tool(json!({"ui": {"resourceUri": 7, "visibility": ["app"]}})).is_for_model());
}

/// C14.11
#[test]
fn app_page_is_read_from_html_of_its_media_type() {
    let contents = |json: serde_json::Value| serde_json::from_str(&json.to_string()).unwrap();
    let page = apps::Page::from_contents(&contents(json!({
        "uri": "ui://t/page", "mimeType": "text/html; profile=mcp-app", "text": "<p>",
        "_meta": {"ui": {"csp": {"connectDomains": ["https://api.example.com"]}, "permissions": {"camera": {}}}},
    })))
    .unwrap();
    assert_eq!(page.html, "<p>");
    assert_eq!(page.permissions, ["camera"]);
    assert_eq!(page.requested_origins.connect_domains, ["https://api.example.com"]);
    let blob = json!({"uri": "ui://t", "mimeType": apps::MEDIA_TYPE, "blob": "PHA+"});
    assert_eq!(apps::Page::from_contents(&contents(blob)).unwrap().html, "<p>");
    for (json, fault) in [
        (json!({"uri": "https://t", "mimeType": apps::MEDIA_TYPE, "text": ""}), apps::PageError::Uri),
        (json!({"uri": "ui://t", "mimeType": "text/html", "text": ""}), apps::PageError::MediaType),
        (json!({"uri": "ui://t", "text": ""}), apps::PageError::MediaType),
        (json!({"uri": "ui://t", "mimeType": apps::MEDIA_TYPE, "blob": "/w=="}), apps::PageError::Text),
    ] {
        assert_eq!(apps::Page::from_contents(&contents(json)), Err(fault));
    }
}

/// C14.11: only origins that the page lists, and only entries that are a plain origin.
#[test]
fn content_security_policy_forbids_origins_that_the_page_does_not_list() {
    let closed = apps::Origins::default().content_security_policy();
    for directive in ["default-src 'none'", "connect-src 'none'", "frame-src 'none'", "base-uri 'none'"] {
        assert!(closed.split("; ").any(|part| part == directive), "{closed}");
    }
    assert!(!closed.contains("http"));
    let wants = apps::Origins {
        connect_domains: [
            "https://api.example.com:8443",
            "wss://*.example.com",
            "https://x; script-src *",
            "*",
            "https://*",
            "'unsafe-eval'",
            "https://a.example/path",
            "https://",
            "data:",
            "https://x y",
        ]
        .map(String::from)
        .to_vec(),
        ..apps::Origins::default()
    };
    let policy = wants.content_security_policy();
    assert!(policy.contains("; connect-src https://api.example.com:8443 wss://*.example.com; "), "{policy}");
    assert!(policy.contains("script-src 'self' 'unsafe-inline'; "), "{policy}");
}

// --- Roots ---

/// C11.7
#[test]
fn root_must_be_a_local_file_uri_without_traversal() {
    for (path, uri) in [
        ("/home/me/project", "file:///home/me/project"),
        ("/home/me/my project/ü#1?", "file:///home/me/my%20project/%C3%BC%231%3F"),
        ("/", "file:///"),
        ("/a//b/", "file:///a/b"),
        (r"C:\Projects\one", "file:///C:/Projects/one"),
        ("c:/Projects", "file:///c:/Projects"),
    ] {
        assert_eq!(Root::from_path(path).unwrap().uri, uri);
    }
    for path in ["relative", "", "./here", "C:", "C:relative", "~/project"] {
        assert_eq!(Root::from_path(path), Err(RootError::NotAbsolute), "{path}");
    }
    for path in ["/home/../etc", "/home/.", r"C:\a\..\b", r"/a\b", "/a\0"] {
        assert_eq!(Root::from_path(path), Err(RootError::Traversal), "{path}");
    }
    for (uri, fault) in [
        ("https://example.com/", RootError::Scheme),
        ("/home/me", RootError::Scheme),
        ("FILE:/home", RootError::Scheme),
        ("file:/home", RootError::Scheme),
        ("file://server/share", RootError::Host),
        ("file:relative", RootError::NotAbsolute),
        ("file://", RootError::NotAbsolute),
        ("file:///a?b", RootError::NotAbsolute),
        ("file:///a/%zz", RootError::NotAbsolute),
        ("file:///a/../b", RootError::Traversal),
        ("file:///a/%2e%2E/b", RootError::Traversal),
        ("file:///a/..%2fb", RootError::Traversal),
        ("file:///a%5c..", RootError::Traversal),
        ("file:///a%00", RootError::Traversal),
    ] {
        assert_eq!(Root::new(uri).check(), Err(fault), "{uri}");
    }
    for uri in ["file:///home/me", "FILE:///home", "file://localhost/home", "file:///a/...", "file:///a/..b"]
    {
        assert_eq!(Root::new(uri).check(), Ok(()), "{uri}");
    }
}

/// S9.9
#[test]
fn root_contains_only_uris_within_it() {
    let root = Root::new("file:///home/me/my%20project/");
    for inside in [
        "file:///home/me/my%20project",
        "file:///home/me/my%20project/a.rs",
        "file:/home/me/my%20project//a/b",
        "file://localhost/home/me/%6dy%20project/a",
    ] {
        assert!(root.contains(inside), "{inside}");
    }
    for outside in [
        "file:///home/me/my%20projects/a",
        "file:///home/me",
        "file:///home/me/my%20project/../x",
        "file:///home/me/my%20project/%2e%2e/x",
        "file:///home/me/my%20project/..%5cx",
        "https:///home/me/my%20project/a",
        "file:///HOME/me/my%20project/a",
    ] {
        assert!(!root.contains(outside), "{outside}");
    }
    assert!(!Root::new("https://example.com").contains("https://example.com/a"));
}

proptest! {
    /// C10.6, C13.3: an accepted URL is shown unchanged, in visible ASCII characters, and has a host.
    #[test]
    fn url_consent_shows_any_accepted_text_whole(
        url in prop_oneof![
            any::<String>(),
            "[hH][tT][tT][pP][sS]?:/{1,3}([a-z%.0-9\\[\\]:]{0,9}@)?[a-zA-Z.0-9\\-:\\[\\]%]{0,20}[/?#\\\\ -~]{0,20}",
        ]
    ) {
        if let Ok(page) = UrlConsent::new(&url) {
            prop_assert_eq!(page.parts().concat(), url.as_str());
            prop_assert_eq!(page.url(), url.as_str());
            prop_assert!(!page.host().is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(page.parts()[0].contains("://") && !page.host().contains(['/', '@', '?', '#']));
            prop_assert!(page.parts()[2].is_empty() || page.parts()[2].starts_with([':', '/', '?', '#']));
        }
    }

    /// C11.7, S9.9
    #[test]
    fn root_of_any_accepted_path_contains_itself(path in prop_oneof![any::<String>(), "(/|C:\\\\)[ -~]{0,20}"]) {
        if let Ok(root) = Root::from_path(&path) {
            prop_assert!(root.uri.is_ascii());
            prop_assert_eq!(root.check(), Ok(()));
            prop_assert!(root.contains(&root.uri));
            let (inside, outside) = (format!("{}/inside", root.uri), format!("{}/../outside", root.uri));
            prop_assert!(root.contains(&inside) && !root.contains(&outside));
        }
    }

    /// C9.16
    #[test]
    fn icon_policy_handles_any_source_and_bytes(src in any::<String>(), bytes in any::<Vec<u8>>()) {
        let policy = IconPolicy::for_server("https://example.com/");
        let icon = Icon::new(src.clone());
        let source = policy.source(&icon);
        prop_assert!(!matches!(source, Ok(IconSource::Fetch(url)) if !url.to_ascii_lowercase().starts_with("https://")));
        let _ = (policy.image(None, &bytes), policy.redirect(&src, &src));
    }
}
