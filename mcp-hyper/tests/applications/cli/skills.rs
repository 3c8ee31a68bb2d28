//! `mcpio skills`: lists, shows and verifies. <https://modelcontextprotocol.io/seps/2640-skills-extension>

use serde_json::{Value, json};

use crate::common::cli::{CommandOutput, mcp};
use crate::host::testbed::{Folder, skill_entry, skill_text};

/// Runs `mcpio skills` for the server of this folder.
fn skills(folder: &Folder, words: &[&str]) -> CommandOutput {
    let server = folder.with_skills("shop");
    let script = server["args"][1].as_str().unwrap();
    mcp(&[&["skills"], words, &["--", "sh", "-c", script]].concat())
}

/// Integrity and verification: a listing reads no file, and whatever is shown is what was listed.
#[test]
fn skills_are_listed_shown_and_verified() {
    let folder = Folder::new();
    let text = skill_text("Ask for the receipt.");
    folder.with_skills("shop");
    folder.set_skill("shop", &skill_entry(&text), &text);
    let listed = skills(&folder, &[]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert!(
        listed.out.contains("skill://acme/refunds/SKILL.md") && listed.out.contains("Refunds a customer")
    );
    assert_eq!(folder.skill_reads("shop"), 0);

    for skill in ["refunds", "skill://acme/refunds/SKILL.md"] {
        let shown = skills(&folder, &[skill]);
        assert!(shown.code == 0 && shown.out.contains("Ask for the receipt."), "{} {}", shown.out, shown.err);
    }
    let shown: Value = serde_json::from_str(&skills(&folder, &["refunds", "--json"]).out).unwrap();
    assert_eq!(
        (&shown["skill"]["uri"], &shown["text"]),
        (&json!("skill://acme/refunds/SKILL.md"), &json!(text))
    );
    let unknown = skills(&folder, &["refund"]);
    assert!(unknown.code == 2 && unknown.err.contains("did you mean refunds?"), "{}", unknown.err);

    let verified = skills(&folder, &["--verify"]);
    let line = format!("verified skill://acme/refunds/SKILL.md: 1 file, {} bytes\n", text.len());
    assert_eq!((verified.code, verified.out), (0, line));
}

/// A file that the server does not send in time is one of its skill alone.
#[test]
fn verification_goes_on_after_a_file_that_takes_too_long() {
    let folder = Folder::new();
    let text = skill_text("Ask for the receipt.");
    let server = folder.with_skills("shop");
    folder.set_skill("shop", &skill_entry(&text), &text);
    let script = server["args"][1].as_str().unwrap();
    let script = script.replace("*resources/read*", "*resources/read*slow*) ;; *resources/read*");
    let (mut slow, good) = (skill_entry(&text), skill_entry(&text));
    slow["uri"] = json!("skill://slow/refunds/SKILL.md");
    slow["resources"][0]["uri"] = slow["uri"].clone();
    let list =
        json!({ "resultType": "complete", "skills": [slow, good], "ttlMs": 0, "cacheScope": "private" });
    std::fs::write(folder.path().join("shop-skills/list"), list.to_string()).unwrap();
    let verified = mcp(&["skills", "--verify", "--timeout", "0.3", "--", "sh", "-c", &script]);
    let lines: Vec<&str> = verified.out.lines().collect();
    assert_eq!((verified.code, lines.len()), (1, 3), "{} {}", verified.out, verified.err);
    assert_eq!(lines[0], "not verified skill://slow/refunds/SKILL.md");
    assert!(lines[2].starts_with("verified skill://acme/refunds/SKILL.md"), "{}", verified.out);
}

/// Integrity and verification: what differs is neither shown nor passed over in silence.
#[test]
fn skill_that_differs_from_its_listing_fails() {
    let folder = Folder::new();
    folder.with_skills("shop");
    let text = skill_text("Ask for the receipt.");
    folder.set_skill("shop", &skill_entry(&text), &skill_text("\u{1b}[2JAsk for the card."));
    let verified = skills(&folder, &["--verify"]);
    assert!(verified.code == 1 && verified.out.starts_with("not verified skill://acme/"), "{}", verified.out);
    let report: Value = serde_json::from_str(&skills(&folder, &["--verify", "--json"]).out).unwrap();
    assert_eq!(report["skills"][0]["verified"], false, "{report}");
    let shown = skills(&folder, &["refunds"]);
    assert!(shown.code == 3 && shown.err.contains("bytes were read"), "{}", shown.err);
    assert!(!shown.out.contains("card") && !shown.err.contains('\u{1b}'));

    let mut incomplete = skill_entry(&text);
    incomplete["resources"] = json!([]);
    folder.set_skill("shop", &incomplete, &text);
    assert!(skills(&folder, &[]).out.contains("must not be loaded"));
    assert_eq!(skills(&folder, &["--verify"]).code, 1);
}
