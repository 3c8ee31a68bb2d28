use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_lite::future::block_on;
use mcp_proto::front::Router;
use mcp_proto::front::RouterError;
use mcp_proto::schema::skills::{Digest, FrontmatterError, InvalidSkill, MAX_BYTES, MAX_FILES};

use super::*;

/// A folder that is deleted with its contents.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("mcp-skills-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Writes a `SKILL.md`.
    fn skill(&self, folder: &str) -> &Self {
        let name = Path::new(folder).file_name().unwrap().to_str().unwrap();
        self.write(&format!("{folder}/SKILL.md"), format!("---\nname: {name}\ndescription: Is {name}\n---\n"))
    }

    fn source(&self) -> SkillFolder {
        SkillFolder::new(&self.0)
    }

    /// The problems, with paths in the folder.
    fn problems(&self) -> Vec<(String, NotServed)> {
        let inner = |problem: SkillProblem| {
            let path = problem.path.strip_prefix(&self.0).unwrap().to_str().unwrap().replace('\\', "/");
            (path, problem.reason)
        };
        self.source().problems().unwrap().into_iter().map(inner).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn uris(source: &SkillFolder) -> Vec<String> {
    let page = block_on(source.list(None, SkillPage::new(None, 1000))).unwrap();
    page.skills().iter().map(|skill| skill.uri.clone()).collect()
}

/// A source, and the problems that it reports.
fn heard(scratch: &Scratch) -> (Arc<Mutex<Vec<String>>>, SkillFolder) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let copy = heard.clone();
    let source = scratch.source().on_problem(move |problem| copy.lock().unwrap().push(problem.to_string()));
    (heard, source)
}

fn entry(source: &SkillFolder, uri: &str) -> Option<Skill> {
    block_on(source.skill(None, uri)).unwrap_or(None)
}

/// Why a skill that is asked for by its URI is not served.
fn refusal(source: &SkillFolder, uri: &str) -> Option<String> {
    block_on(source.skill(None, uri)).err().map(|error| error.to_string())
}

fn read(source: &SkillFolder, uri: &str) -> Option<String> {
    block_on(source.read(None, uri)).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn children(source: &SkillFolder, uri: &str) -> Option<Vec<String>> {
    let children = block_on(source.directory(None, uri)).unwrap()?;
    Some(children.into_iter().map(|child| child.uri).collect())
}

fn files(skill: &Skill) -> Vec<&str> {
    skill.files().iter().map(|file| file.uri.as_str()).collect()
}

#[test]
fn folder_is_read_at_each_request() {
    let scratch = Scratch::new();
    scratch
        .skill("knots")
        .write("knots/references/Half hitch.md", "Twice")
        .write("README.md", "not of a skill");
    let source = scratch.source();
    assert_eq!(uris(&source), ["skill://knots/SKILL.md"]);
    let skill = entry(&source, "skill://knots/SKILL.md").unwrap();
    assert_eq!(files(&skill), ["skill://knots/SKILL.md", "skill://knots/references/Half%20hitch.md"]);
    assert_eq!((skill.files()[1].digest, skill.files()[1].size), (Digest::of(b"Twice"), 5));
    assert_eq!(read(&source, "skill://knots/references/Half%20hitch.md").unwrap(), "Twice");
    assert_eq!(
        children(&source, "skill://knots").unwrap(),
        ["skill://knots/SKILL.md", "skill://knots/references"]
    );
    assert_eq!(children(&source, "skill://knots/references").unwrap(), [files(&skill)[1]]);
    scratch.write("knots/references/Half hitch.md", "Thrice").skill("a/b/splices");
    assert_eq!(uris(&source), ["skill://a/b/splices/SKILL.md", "skill://knots/SKILL.md"]);
    let changed = entry(&source, "skill://knots/SKILL.md").unwrap();
    assert_eq!(changed.files()[1].digest, Digest::of(b"Thrice"));
    fs::remove_dir_all(scratch.0.join("knots")).unwrap();
    assert_eq!(
        (entry(&source, "skill://knots/SKILL.md"), read(&source, "skill://knots/SKILL.md")),
        (None, None)
    );
    assert_eq!(children(&source, "skill://knots"), None);
}

#[test]
fn folder_that_is_missing_has_no_skills_until_it_exists() {
    let scratch = Scratch::new();
    let heard: Arc<Mutex<Vec<NotServed>>> = Arc::default();
    let copy = heard.clone();
    let source = SkillFolder::new(scratch.0.join("later"))
        .on_problem(move |problem| copy.lock().unwrap().push(problem.reason.clone()));
    let uri = "skill://knots/SKILL.md";
    assert_eq!(uris(&source), [] as [&str; 0]);
    assert_eq!((entry(&source, uri), read(&source, uri)), (None, None));
    assert_eq!(children(&source, "skill://knots"), None);
    assert_eq!(*heard.lock().unwrap(), vec![NotServed::Unreadable(io::ErrorKind::NotFound); 4]);
    assert_eq!(source.problems().unwrap_err().kind(), io::ErrorKind::NotFound);
    scratch.skill("later/knots");
    assert_eq!(uris(&source), [uri]);
    fs::write(scratch.0.join("file"), "").unwrap();
    let error = block_on(SkillFolder::new(scratch.0.join("file")).list(None, SkillPage::new(None, 1)))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("the skills of this server cannot be read: "), "{error}");
}

#[test]
fn uri_names_a_file_in_one_way() {
    let scratch = Scratch::new();
    scratch.skill("knots").write("knots/a/b.md", "b").write("secret.md", "secret").write("other/c.md", "c");
    scratch.write("knots/.env", "secret").write(".git/config", "secret");
    let source = scratch.source();
    assert!(read(&source, "skill://knots/a/b.md").is_some());
    for uri in [
        "skill://knots/a/B.md",
        "skill://KNOTS/a/b.md",
        "skill://knots/skill.md",
        "skill://knots/%61/b.md",
        "skill://knots//a/b.md",
        "skill://knots/./a/b.md",
        "skill://knots/a/../a/b.md",
        "skill://knots/../secret.md",
        "skill://knots/%2e%2e/secret.md",
        "skill://knots/..%2Fsecret.md",
        "skill://knots/a%2Fb.md",
        "skill://knots/a",
        "skill://knots/a/b.md/",
        "skill://knots/a/b.md?x",
        "skill://knots/.env",
        "skill://secret.md",
        "skill://other/c.md",
        "skill://.git/config",
        "skill:///knots/a/b.md",
        "skill://",
        "",
    ] {
        assert_eq!((read(&source, uri), entry(&source, uri)), (None, None), "{uri}");
    }
    for uri in [
        "skill://",
        "skill://knots/",
        "skill://knots/A",
        "skill://other",
        "skill://knots/a/..",
        "skill://knots/a/b.md",
    ] {
        assert_eq!(children(&source, uri), None, "{uri}");
    }
}

#[cfg(unix)]
#[test]
fn links_lead_nowhere() {
    use std::os::unix::fs::symlink;

    let (scratch, outside) = (Scratch::new(), Scratch::new());
    outside.skill("evil").write("secret.md", "secret");
    scratch.skill("knots").write("knots/own.md", "own");
    symlink(outside.0.join("secret.md"), scratch.0.join("knots/file.md")).unwrap();
    symlink(&outside.0, scratch.0.join("knots/folder")).unwrap();
    symlink("own.md", scratch.0.join("knots/inner.md")).unwrap();
    symlink(outside.0.join("evil"), scratch.0.join("evil")).unwrap();
    fs::create_dir(scratch.0.join("main")).unwrap();
    symlink(outside.0.join("evil/SKILL.md"), scratch.0.join("main/SKILL.md")).unwrap();
    let source = scratch.source();
    assert_eq!(uris(&source), ["skill://knots/SKILL.md"]);
    let skill = entry(&source, "skill://knots/SKILL.md").unwrap();
    assert_eq!(files(&skill), ["skill://knots/SKILL.md", "skill://knots/own.md"]);
    for uri in [
        "skill://knots/file.md",
        "skill://knots/folder/secret.md",
        "skill://knots/inner.md",
        "skill://evil/SKILL.md",
        "skill://main/SKILL.md",
    ] {
        assert_eq!(read(&source, uri), None, "{uri}");
    }
    let mut links = scratch.problems();
    links.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        links,
        ["evil", "knots/file.md", "knots/folder", "knots/inner.md", "main/SKILL.md"]
            .map(|path| (path.to_owned(), NotServed::Link))
    );
    // The folder that the application names may be one.
    let by_link = scratch.0.with_extension("link");
    symlink(&scratch.0, &by_link).unwrap();
    assert_eq!(uris(&SkillFolder::new(&by_link)), ["skill://knots/SKILL.md"]);
    fs::remove_file(by_link).unwrap();
}

#[cfg(unix)]
#[test]
fn pipe_or_unnameable_file_is_left_out() {
    use std::os::unix::ffi::OsStrExt as _;

    let scratch = Scratch::new();
    scratch.skill("knots");
    let path = scratch.0.join("knots/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    fs::write(scratch.0.join("knots").join(std::ffi::OsStr::from_bytes(b"\xff.md")), "a").unwrap();
    fs::write(scratch.0.join("knots/a\\b"), "a").unwrap();
    assert_eq!(files(&entry(&scratch.source(), "skill://knots/SKILL.md").unwrap()).len(), 1);
    let problems = scratch.source().problems().unwrap();
    let reasons: Vec<_> = problems.iter().map(|problem| problem.reason.clone()).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == NotServed::Name).count(), 2);
    assert_eq!(reasons.iter().filter(|reason| **reason == NotServed::Special).count(), 1);
}

/// S12.4, S12.11
#[test]
fn skill_is_served_whole_or_not_at_all() {
    let scratch = Scratch::new();
    scratch.skill("many").skill("large").skill("good");
    (1..=MAX_FILES).for_each(|number| _ = scratch.write(&format!("many/{number}"), ""));
    fs::File::create(scratch.0.join("large/a")).unwrap().set_len(MAX_BYTES + 1).unwrap();
    scratch
        .write("plain/SKILL.md", "# Title\n")
        .write("named/SKILL.md", "---\nname: other\ndescription: d\n---\n")
        .write("wordy/SKILL.md", format!("---\nname: wordy\ndescription: {}\n---\n", "d".repeat(1025)));
    scratch.write("bytes/SKILL.md", [0xff]);
    scratch.write("good/deep/SKILL.md", "only a file");
    let source = scratch.source();
    assert_eq!(uris(&source), ["skill://good/SKILL.md"]);
    for uri in
        ["skill://many/1", "skill://large/SKILL.md", "skill://plain/SKILL.md", "skill://named/SKILL.md"]
    {
        assert_eq!((read(&source, uri), entry(&source, uri)), (None, None), "{uri}");
    }
    let refused = |folder: &str| refusal(&source, &format!("skill://{folder}/SKILL.md"));
    let too_many =
        format!("the skill skill://many/SKILL.md is not served: the skill has {} files", MAX_FILES + 1);
    assert!(refused("many").unwrap().starts_with(&too_many), "{:?}", refused("many"));
    assert_eq!((refused("good"), refused("none"), refusal(&source, "skill://many/1")), (None, None, None));
    assert_eq!(read(&source, "skill://good/deep/SKILL.md").unwrap(), "only a file");
    assert_eq!(files(&entry(&source, "skill://good/SKILL.md").unwrap()).len(), 2);
    let skill = |path: &str, error| (path.to_owned(), NotServed::Skill(error));
    let missing = || SkillFilesError::Frontmatter(FrontmatterError::Missing);
    let problems = scratch.problems();
    assert_eq!(
        problems,
        [
            skill("bytes", SkillFilesError::NotText),
            skill("good/deep", missing()),
            skill("large", SkillFilesError::TooLarge { size: MAX_BYTES + 43 }),
            skill("many", SkillFilesError::TooManyFiles { count: MAX_FILES + 1 }),
            skill("named", SkillFilesError::Entry(InvalidSkill::Uri)),
            skill("plain", missing()),
            skill("wordy", SkillFilesError::Description),
        ]
    );
    fs::remove_file(scratch.0.join("many/1")).unwrap();
    assert_eq!(entry(&source, "skill://many/SKILL.md").unwrap().files().len(), MAX_FILES);
}

#[test]
fn nested_skill_is_listed_beside_the_outer_one() {
    let scratch = Scratch::new();
    scratch.skill("outer").skill("outer/more/inner").write("outer/more/inner/a.md", "a");
    let source = scratch.source().under("acme/all");
    let inner = "skill://acme/all/outer/more/inner/SKILL.md";
    assert_eq!(uris(&source), ["skill://acme/all/outer/SKILL.md", inner]);
    assert_eq!(entry(&source, "skill://acme/all/outer/SKILL.md").unwrap().files().len(), 3);
    assert_eq!(entry(&source, inner).unwrap().files().len(), 2);
    assert_eq!(
        children(&source, "skill://acme/all/outer/more").unwrap(),
        ["skill://acme/all/outer/more/inner"]
    );
    assert_eq!(children(&source, "skill://acme/all/outer/more/inner").unwrap().len(), 2);
    assert_eq!(entry(&source, "skill://outer/SKILL.md"), None);
}

/// S12.8: "An empty directory yields an empty `resources` array", and is among the children of its parent.
#[test]
fn empty_folder_is_one_of_its_skill() {
    let scratch = Scratch::new();
    scratch.skill("knots").write("knots/a.md", "a").write("knots/z/b.md", "b").write("other/c.md", "c");
    for folder in ["knots/more/leer ü", "knots/.hidden", "other/empty"] {
        fs::create_dir_all(scratch.0.join(folder)).unwrap();
    }
    let source = scratch.source();
    let expected = ["SKILL.md", "a.md", "more", "z"].map(|name| format!("skill://knots/{name}"));
    assert_eq!(children(&source, "skill://knots").unwrap(), expected);
    let empty = block_on(source.directory(None, "skill://knots/more")).unwrap().unwrap();
    let [child] = &*empty else { panic!("{empty:?}") };
    assert_eq!((&*child.uri, &*child.name), ("skill://knots/more/leer%20%C3%BC", "leer ü"));
    assert_eq!(child.mime_type.as_deref(), Some("inode/directory"));
    assert_eq!(children(&source, &child.uri).unwrap(), [] as [&str; 0]);
    for uri in ["skill://knots/more/", "skill://knots/.hidden", "skill://other/empty", "skill://knots/a.md"] {
        assert_eq!(children(&source, uri), None, "{uri}");
    }
}

/// S12.14: "A nested skill is published like any other", also if the outer one is not.
#[test]
fn nested_skill_is_served_without_the_outer_one() {
    let scratch = Scratch::new();
    scratch.skill("outer").skill("outer/inner").write("outer/inner/a.md", "a").skill("outer/more/many");
    (1..=MAX_FILES).for_each(|number| _ = scratch.write(&format!("outer/more/many/{number}"), ""));
    fs::File::create(scratch.0.join("outer/a")).unwrap().set_len(MAX_BYTES + 1).unwrap();
    let source = scratch.source();
    let inner = "skill://outer/inner/SKILL.md";
    assert_eq!(uris(&source), [inner]);
    assert_eq!(files(&entry(&source, inner).unwrap()), [inner, "skill://outer/inner/a.md"]);
    assert_eq!(read(&source, "skill://outer/inner/a.md").unwrap(), "a");
    assert_eq!(children(&source, "skill://outer/inner").unwrap().len(), 2);
    for uri in ["skill://outer/SKILL.md", "skill://outer/a", "skill://outer/more/many/SKILL.md"] {
        assert_eq!((read(&source, uri), entry(&source, uri)), (None, None), "{uri}");
    }
    let problems = scratch.problems();
    let places: Vec<&str> = problems.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(places, ["outer/more/many", "outer"]);
    let too_many = SkillFilesError::TooManyFiles { count: MAX_FILES + 1 };
    assert_eq!(problems[0].1, NotServed::Skill(too_many));
    // A problem of both is reported once.
    let scratch = Scratch::new();
    let deep = ["d"; tree::MAX_DEPTH + 1].join("/");
    scratch.skill("outer").skill("outer/inner").write(&format!("outer/inner/{deep}/a"), "");
    let [(path, reason)] = &*scratch.problems() else { panic!("{:?}", scratch.problems()) };
    assert!(path.starts_with("outer/inner/d/") && *reason == NotServed::TooDeep, "{path}");
}

/// "Listing Skills": each page goes on where the one before ended, in one order, and reads no files of others.
#[test]
fn page_has_the_skills_after_a_uri() {
    let scratch = Scratch::new();
    for folder in ["a", "a/inner", "a-b", "a-b/0a", "b/c/d", "b/e", "z"] {
        scratch.skill(folder);
    }
    scratch.write("b/e/file", "").write("y/SKILL.md", "no skill").write("z/in/SKILL.md", "no skill");
    let (heard, source) = heard(&scratch);
    let all = uris(&source);
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!((all.len(), &sorted), (7, &all));
    for most in 1..=8 {
        let (mut after, mut found, mut has_more) = (None, Vec::new(), true);
        while has_more {
            let mut page = block_on(source.list(None, SkillPage::new(after, most))).unwrap();
            assert!(page.skills().len() <= most);
            has_more = !page.has_room();
            found.extend(page.skills().iter().map(|skill| skill.uri.clone()));
            after = found.last().cloned();
        }
        assert_eq!(found, all, "{most}");
    }
    // What is wrong before the page or after it is not met.
    heard.lock().unwrap().clear();
    let page = |after: &str| SkillPage::new(Some(format!("skill://{after}/SKILL.md")), 1);
    assert_eq!(block_on(source.list(None, page("a-b"))).unwrap().skills()[0].uri, all[2]);
    assert_eq!(heard.lock().unwrap().len(), 0);
    assert_eq!(block_on(source.list(None, page("y0"))).unwrap().skills()[0].uri, "skill://z/SKILL.md");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

/// S12.8: "Directory Listing": every level above a skill is a directory, and others of the folder are not.
#[test]
fn folder_above_skills_is_a_directory() {
    let scratch = Scratch::new();
    scratch
        .skill("billing/refunds")
        .skill("billing/deep/er/taxes")
        .write("billing/a.md", "a")
        .write("c/d.md", "d");
    let source = scratch.source().under("acme");
    assert_eq!(children(&source, "skill://acme").unwrap(), ["skill://acme/billing"]);
    assert_eq!(
        children(&source, "skill://acme/billing").unwrap(),
        ["skill://acme/billing/deep", "skill://acme/billing/refunds"]
    );
    assert_eq!(children(&source, "skill://acme/billing/deep").unwrap(), ["skill://acme/billing/deep/er"]);
    assert_eq!(children(&source, "skill://acme/billing/deep/er/taxes").unwrap().len(), 1);
    for uri in ["skill://acme/c", "skill://acme/bill", "skill://acme/", "skill://acme/billing/", "skill:/"] {
        assert_eq!(children(&source, uri), None, "{uri}");
    }
    let empty = Scratch::new();
    assert_eq!(children(&empty.source().under("acme"), "skill://acme"), Some(Vec::new()));
}

/// Which name of a file is the first cannot be told: see the page of `SkillFolder`.
#[cfg(unix)]
#[test]
fn hard_link_is_a_file_like_any_other() {
    let scratch = Scratch::new();
    scratch.skill("knots").write("store/1", "a");
    fs::hard_link(scratch.0.join("store/1"), scratch.0.join("knots/a.md")).unwrap();
    assert_eq!(read(&scratch.source(), "skill://knots/a.md").unwrap(), "a");
    assert_eq!(scratch.problems(), []);
}

#[test]
fn folder_may_be_that_of_one_skill() {
    let scratch = Scratch::new();
    scratch.write("SKILL.md", "---\nname: knots\ndescription: d\n---\n").write("a.md", "a");
    assert_eq!(uris(&scratch.source().under("knots")), ["skill://knots/SKILL.md"]);
    assert_eq!(children(&scratch.source().under("knots"), "skill://knots").unwrap().len(), 2);
    assert_eq!(
        scratch.problems(),
        [(String::new(), NotServed::Skill(SkillFilesError::Entry(InvalidSkill::Uri)))]
    );
}

#[test]
fn deep_folders_are_not_searched() {
    let scratch = Scratch::new();
    let deep = |depth: usize| vec!["d"; depth].join("/");
    scratch.skill(&format!("{}/ok", deep(tree::MAX_DEPTH - 1)));
    assert_eq!((uris(&scratch.source()).len(), scratch.problems()), (1, Vec::new()));
    scratch.skill(&format!("{}/not", deep(tree::MAX_DEPTH)));
    let path = format!("{}/not", deep(tree::MAX_DEPTH));
    assert_eq!((uris(&scratch.source()).len(), scratch.problems()), (1, vec![(path, NotServed::TooDeep)]));
}

#[test]
fn folder_is_not_read_beyond_the_number_of_entries() {
    let scratch = Scratch::new();
    scratch.write("a", "").write("b", "").write("c", "");
    let read = |most: usize| tree::Folder::open(&scratch.0).unwrap().entries(most).unwrap().len();
    assert_eq!([0, 1, 2, 3, 9].map(read), [1, 2, 3, 3, 3]);
}

#[test]
fn application_hears_of_each_problem() {
    let scratch = Scratch::new();
    scratch.skill("good").write("bad/SKILL.md", "");
    let (heard, source) = heard(&scratch);
    assert_eq!(uris(&source), ["skill://good/SKILL.md"]);
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 1);
    assert!(
        heard[0].ends_with(
            "bad\" is not served: SKILL.md: the file does not begin with frontmatter between two lines of ---"
        ),
        "{heard:?}"
    );
}

#[test]
fn path_of_uris_is_checked_with_the_router() {
    let router = |path: &str| Router::new("x", "1").skills_from(SkillFolder::new("/").under(path));
    for (path, uri) in [("a//b", "skill://a//b/"), ("..", "skill://../"), ("", "skill:///")] {
        assert_eq!(router(path).check(), Err(RouterError::Uri { uri: uri.into() }), "{path}");
    }
    assert_eq!(router("two words").check(), Ok(()));
    let two = router("a").skills_from(SkillFolder::new("/"));
    assert_eq!(
        two.check(),
        Err(RouterError::SkillOverlap { root: "skill://".into(), other: "skill://a/".into() })
    );
}
