//! Skills of a host's servers: nothing is read early, and a model reads what the user has approved, or nothing.
//! <https://modelcontextprotocol.io/seps/2640-skills-extension>

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use mcp_hyper::host::{CallError, FileStorage, Host, HostEvent, SkillOptions};
use mcp_hyper::mcp_proto::front::Error;
use mcp_hyper::mcp_proto::host::consent::SkillRequest;
use mcp_hyper::mcp_proto::host::tools::LookupError;
use mcp_hyper::mcp_proto::skills::SkillErrorKind;
use serde_json::{Value, json};

use super::testbed::*;
use crate::common::cli;
use crate::common::server::*;

const NAME: &str = "shop/acme/refunds";
const URI: &str = "skill://acme/refunds/SKILL.md";

/// A user who agrees to the first so many requests, and how many there were.
fn agreeing(times: usize) -> (SkillOptions, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let options = SkillOptions::new().on_request(move |request: SkillRequest| {
        let agrees = count.fetch_add(1, SeqCst) < times;
        async move { agrees.then(|| request.approve()) }
    });
    (options, asked)
}

async fn load(host: &Host) -> (bool, String) {
    let content = host.use_skill("mcp__read_skill", json!({ "name": NAME })).await.unwrap();
    (content.is_error, content.to_text())
}

/// C15.9, C15.13, C15.19, C15.23
/// Integrity and verification, Security Implications: lazy, approved, verified, with its origin.
#[test]
fn model_loads_a_skill_once_the_user_has_approved_it() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop"), "bank": folder.with_skills("bank") });
        let text = skill_text("Ask for the receipt.");
        for name in ["shop", "bank"] {
            folder.set_skill(name, &skill_entry(&text), &text);
        }
        let (skills, asked) = agreeing(1);
        let (host, _driver) = start(options(config(servers)).skills(skills));
        host.ready().await;
        let listing = host.list_skills().await;
        assert_eq!(listing.errors.len(), 0, "{:?}", listing.errors);
        let names: Vec<_> = listing.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["bank/acme/refunds", NAME], "equal names are shown with their origin");
        let shown = host.skills_for_model();
        assert!(shown.list.contains(NAME), "{}", shown.list);
        assert_eq!(shown.tools[0].name, "mcp__read_skill");
        assert_eq!(
            (folder.skill_reads("shop"), asked.load(SeqCst)),
            (0, 0),
            "nothing is read before it is used"
        );

        let (is_error, content) = load(&host).await;
        assert!(!is_error && content.starts_with("[host] The skill shop/acme/refunds follows."), "{content}");
        assert!(content.contains("The MCP server shop wrote it") && content.contains("Ask for the receipt."));
        load(&host).await;
        assert_eq!(asked.load(SeqCst), 1, "it is approved");
        assert_eq!(
            (folder.skill_reads("shop"), folder.skill_reads("bank")),
            (2, 0),
            "no other server is asked"
        );

        let read = |path: &str| json!({ "skill": NAME, "path": path });
        let listed = host.use_skill("mcp__read_resource", read("")).await.unwrap();
        assert!(listed.to_text().ends_with("\nSKILL.md"), "{}", listed.to_text());
        for path in ["../../secrets.md", "extra.md", "file:///etc/passwd"] {
            let content = host.use_skill("mcp__read_resource", read(path)).await.unwrap();
            assert!(content.is_error, "{path}");
        }
        assert_eq!(folder.skill_reads("shop"), 2, "what is not listed is not requested");
        // The other one of that name needs an approval of its own, which the user does not give.
        let refused = host.read_skill_file("bank/acme/refunds", "SKILL.md").await;
        assert!(matches!(refused, Err(CallError::Name(LookupError::Blocked))), "{refused:?}");
        assert_eq!((folder.skill_reads("bank"), asked.load(SeqCst)), (0, 2));
        assert!(matches!(
            host.use_skill("mcp__shop__x", json!({})).await,
            Err(CallError::Name(LookupError::Unknown))
        ));
    });
}

/// C15.6, C15.14: Security Implications, content-bound approval: revoked by a mismatch, and asked for again.
#[test]
fn content_that_changes_ends_the_approval() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let (text, changed) = (skill_text("Ask for the receipt."), skill_text("Ask for the card no."));
        folder.set_skill("shop", &skill_entry(&text), &text);
        let (skills, asked) = agreeing(2);
        let (host, mut events, _driver) = start_watched(options(config(servers)).skills(skills));
        host.ready().await;
        host.list_skills().await;
        assert!(!load(&host).await.0);

        // The server sends other content than it listed, of the same size.
        folder.set_skill("shop", &skill_entry(&changed), &changed);
        let (is_error, content) = load(&host).await;
        assert!(is_error && content.contains("the digest differs") && !content.contains("card"), "{content}");
        loop {
            if let HostEvent::SkillRevoked { server, skill } = events.next().await.unwrap() {
                assert_eq!((&*server, &*skill), ("shop", URI));
                break;
            }
        }
        // The entry was got again, and the user is asked about it.
        assert_eq!(asked.load(SeqCst), 1);
        let (is_error, content) = load(&host).await;
        assert!(!is_error && content.contains("card no") && asked.load(SeqCst) == 2, "{content}");
        // The first listing, which may be cached for an hour, does not come back.
        assert_eq!(host.list_skills().await.errors.len(), 0);
        assert!(!load(&host).await.0);

        // The content that was approved first is not approved any more.
        folder.set_skill("shop", &skill_entry(&text), &text);
        host.get_skill("shop", URI).await.unwrap();
        let (is_error, content) = load(&host).await;
        assert!(is_error && content.contains("has not approved"), "{content}");
        assert_eq!(asked.load(SeqCst), 3);
    });
}

/// C15.14: Security Implications: approvals persist with their content, and those of dynamic skills do not.
#[test]
fn approvals_of_skills_are_stored_and_dynamic_ones_are_not() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("Ask for the receipt.");
        folder.set_skill("shop", &skill_entry(&text), &text);
        let storage = || FileStorage::in_folder(folder.path().join("stored"));
        let run = async |skills: SkillOptions| {
            let (host, driver) = start(options(config(servers.clone())).skills(skills).storage(storage()));
            host.ready().await;
            let listing = host.list_skills().await;
            let loaded = load(&host).await;
            host.close().await;
            driver.await.unwrap();
            (listing, loaded.0)
        };
        let (skills, asked) = agreeing(1);
        assert!(!run(skills).await.1);
        assert!(!run(SkillOptions::new()).await.1, "it is approved in the next run");
        assert_eq!(asked.load(SeqCst), 1);

        let (host, driver) = start(options(config(servers.clone())).storage(storage()));
        host.ready().await;
        assert!(host.revoke_approval("", "shop"));
        host.close().await;
        driver.await.unwrap();
        assert!(run(SkillOptions::new()).await.1, "it was revoked for good");

        let mut dynamic = skill_entry(&text);
        dynamic["resources"] = json!("dynamic");
        folder.set_skill("shop", &dynamic, &text);
        let (listing, is_error) = run(agreeing(9).0).await;
        assert!(is_error && listing.skills.is_empty());
        assert!(matches!(&listing.errors[0].1, Error::Skill(error) if error.kind == SkillErrorKind::Dynamic));
        assert!(!run(agreeing(1).0.allow_dynamic()).await.1);
        assert!(run(SkillOptions::new().allow_dynamic()).await.1, "its approval is not stored");
    });
}

/// T6: a listing that does not end is an error of its server alone.
#[test]
fn server_that_lists_slowly_delays_no_skills_of_others() {
    bounded(async {
        let folder = Folder::new();
        // It has no answer to `skills/list`.
        let script = skills_script(folder.path()).replace("*skills/list*", "*never*");
        let mut silent = folder.script("silent", &cli::script(&script));
        silent["requestTimeoutMs"] = json!(50);
        let servers = json!({ "silent": silent, "shop": folder.with_skills("shop") });
        let text = skill_text("");
        folder.set_skill("shop", &skill_entry(&text), &text);
        let (host, _driver) = start(options(config(servers)).skills(SkillOptions::new()));
        host.ready().await;
        let listing = host.list_skills().await;
        assert_eq!(listing.skills.len(), 1);
        let (server, error) = &listing.errors[0];
        assert!(&**server == "silent" && error.is_timeout(), "{error}");
    });
}

/// C15.4: Enumeration via skills/list: a listing that fails is no proof that a skill is gone.
#[test]
fn failed_listing_removes_no_skill_and_no_approval() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("Ask for the receipt.");
        folder.set_skill("shop", &skill_entry(&text), &text);
        let (skills, asked) = agreeing(1);
        let (host, _driver) = start(options(config(servers)).skills(skills));
        host.ready().await;
        host.list_skills().await;
        assert!(!load(&host).await.0);
        let broken = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private" });
        fs::write(folder.path().join("shop-skills/list"), broken.to_string()).unwrap();
        let listing = host.list_skills().await;
        assert_eq!((listing.skills.len(), listing.errors.len()), (1, 1), "{:?}", listing.errors);
        assert!(!load(&host).await.0);
        assert_eq!(asked.load(SeqCst), 1, "it is still approved");
    });
}

/// Security Implications, content-bound approval: an entry that is broken by now is reported and ends the approval, one that
/// is only repeated does not.
#[test]
fn entry_that_is_listed_again_broken_ends_the_approval() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("Ask for the receipt.");
        let entry = skill_entry(&text);
        let list = |entries: &[&Value]| {
            let list =
                json!({ "resultType": "complete", "skills": entries, "ttlMs": 0, "cacheScope": "private" });
            fs::write(folder.path().join("shop-skills/list"), list.to_string()).unwrap();
        };
        folder.set_skill("shop", &entry, &text);
        let (skills, asked) = agreeing(9);
        let (host, _driver) = start(options(config(servers)).skills(skills));
        host.ready().await;
        host.list_skills().await;
        load(&host).await;

        list(&[&entry, &entry]);
        let listing = host.list_skills().await;
        assert_eq!(
            (listing.errors.len(), listing.skills[0].permit.is_ok()),
            (1, true),
            "it is only repeated"
        );
        let mut other = entry.clone();
        other["frontmatter"]["description"] = json!("Refunds anybody");
        list(&[&entry, &other]);
        let listing = host.list_skills().await;
        assert_eq!((listing.errors.len(), listing.skills[0].permit.is_ok()), (1, false), "which one holds?");

        load(&host).await;
        assert_eq!(asked.load(SeqCst), 2);
        let mut broken = entry.clone();
        broken["frontmatter"] = json!({});
        list(&[&broken]);
        let listing = host.list_skills().await;
        let [(_, Error::Skill(error))] = &*listing.errors else { panic!("{:?}", listing.errors) };
        assert!(error.skill == URI && matches!(error.kind, SkillErrorKind::Unreadable(_)), "{error}");
        list(&[&entry]);
        assert!(host.list_skills().await.skills[0].permit.is_err(), "the approval has ended");

        // The server answers with the entry of another skill.
        load(&host).await;
        assert!(host.skills()[0].permit.is_ok());
        let mut moved = entry.clone();
        moved["uri"] = json!("skill://acme/other/SKILL.md");
        folder.set_skill("shop", &moved, &text);
        host.get_skill("shop", URI).await.unwrap_err();
        assert!(host.skills()[0].permit.is_err());
    });
}

/// Parallel loads of one skill are one question, which the next one repeats if it was never answered.
#[test]
fn user_is_asked_once_by_parallel_loads() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("Ask for the receipt.");
        folder.set_skill("shop", &skill_entry(&text), &text);
        let (asked, agrees) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, answer) = (asked.clone(), agrees.clone());
        let skills = SkillOptions::new().on_request(move |request: SkillRequest| {
            count.fetch_add(1, SeqCst);
            let agrees = answer.load(SeqCst) > 0;
            async move {
                futures_lite::future::yield_now().await;
                agrees.then(|| request.approve())
            }
        });
        let (host, mut events, _driver) = start_watched(options(config(servers)).skills(skills));
        host.ready().await;
        host.list_skills().await;
        let two = || futures_lite::future::zip(load(&host), load(&host));
        let (one, other) = two().await;
        assert!(one.0 && other.0);
        assert_eq!((asked.load(SeqCst), folder.skill_reads("shop")), (1, 0), "the refusal counts for both");

        agrees.store(1, SeqCst);
        // The first one is given up while the user reads.
        let mut first = Box::pin(load(&host));
        assert!(futures_lite::future::poll_once(&mut first).await.is_none());
        let mut second = Box::pin(load(&host));
        assert!(futures_lite::future::poll_once(&mut second).await.is_none());
        assert_eq!(asked.load(SeqCst), 2);
        drop(first);
        assert!(!second.await.0);
        assert_eq!(asked.load(SeqCst), 3);
        let (one, other) = two().await;
        assert!(!one.0 && !other.0 && asked.load(SeqCst) == 3);

        // The application hears of each approval that ends.
        assert!(host.revoke_approval("", "shop"));
        loop {
            if let HostEvent::SkillRevoked { server, skill } = events.next().await.unwrap() {
                assert_eq!((&*server, &*skill), ("shop", URI));
                break;
            }
        }
    });
}

/// C15.25: T6: a skill that is one too many is an error, and no other skill than before.
#[test]
fn skill_beyond_the_bound_stays_approved() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("Ask for the receipt.");
        let entry = skill_entry(&text);
        folder.set_skill("shop", &entry, &text);
        let (skills, asked) = agreeing(1);
        let (host, _driver) = start(options(config(servers)).skills(skills));
        host.ready().await;
        host.list_skills().await;
        assert!(!load(&host).await.0);
        let other = |number: usize| {
            let uri = format!("skill://{number}/refunds/SKILL.md");
            json!({ "uri": uri, "frontmatter": entry["frontmatter"], "resources": [{ "uri": uri, "digest": entry["resources"][0]["digest"], "size": 1 }] })
        };
        let list = |entries: &[Value]| {
            let list =
                json!({ "resultType": "complete", "skills": entries, "ttlMs": 0, "cacheScope": "private" });
            fs::write(folder.path().join("shop-skills/list"), list.to_string()).unwrap();
        };
        let mut entries: Vec<Value> = (0..2000).map(other).collect();
        entries.push(entry.clone());
        list(&entries);
        let listing = host.list_skills().await;
        let [(_, Error::Skill(error))] = &*listing.errors else { panic!("{:?}", listing.errors) };
        assert!(error.skill == URI && error.kind == SkillErrorKind::TooMany, "{error}");
        list(&[entry]);
        host.list_skills().await;
        assert!(!load(&host).await.0);
        assert_eq!(asked.load(SeqCst), 1);
    });
}

/// A host that does not use skills lists none.
#[test]
fn host_without_skills_asks_for_none() {
    bounded(async {
        let folder = Folder::new();
        let servers = json!({ "shop": folder.with_skills("shop") });
        let text = skill_text("");
        folder.set_skill("shop", &skill_entry(&text), &text);
        let (host, _driver) = start(options(config(servers)));
        host.ready().await;
        assert!(host.list_skills().await.skills.is_empty());
        assert_eq!(host.skills_for_model(), mcp_hyper::host::SkillsForModel::default());
    });
}
