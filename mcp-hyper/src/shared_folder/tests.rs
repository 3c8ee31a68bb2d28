mod processes;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use futures_lite::future::{block_on, zip};
use mcp_proto::front::tasks::{StoredTaskState, TaskPage};
use mcp_proto::front::{ClaimOutcome, UseId};
use mcp_proto::quota::QuotaOwner;

use super::journal::{LEAST_REWRITTEN, damaged};
use super::*;

/// A folder that is removed with this.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mcp-shared-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    /// The store of two processes: file locks hold between the handles of one process as well.
    fn processes(&self) -> [SharedFolder; 2] {
        [SharedFolder::new(&self.0), SharedFolder::new(&self.0)]
    }

    fn journal(&self) -> Journal<Numbers> {
        Journal::new(self.0.join("numbers"))
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A set of numbers: `+1` adds one, `-1` removes it.
#[derive(Default)]
struct Numbers(BTreeSet<u64>);

impl Table for Numbers {
    const HEADING: &'static str = "numbers";

    fn restore(&mut self, entry: &str) -> io::Result<()> {
        let number: i64 = entry.trim().parse().map_err(|_| damaged())?;
        match number.is_negative() {
            true => assert!(self.0.remove(&number.unsigned_abs())),
            false => assert!(self.0.insert(number.unsigned_abs())),
        }
        Ok(())
    }

    fn renew(&self, entry: &str, seen: &mut BTreeSet<String>) -> io::Result<Option<String>> {
        let number = entry.trim().parse().unwrap_or(0);
        Ok((self.0.contains(&number) && seen.insert(number.to_string())).then(|| entry.to_owned()))
    }
}

impl Journal<Numbers> {
    fn add(&mut self, entry: &str) {
        self.write(entry, |numbers| Ok((true, numbers.restore(entry)?))).unwrap();
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.read(|numbers| Ok(numbers.0.iter().copied().collect())).unwrap()
    }
}

/// A process may end within any write: confirmed changes are there, and others write on.
#[test]
fn journal_that_breaks_off_anywhere_keeps_its_whole_entries() {
    let whole = TestFolder::new("whole");
    for entry in ["+1", "+22", "-1", "+333", "-22"] {
        whole.journal().add(entry);
    }
    let bytes = fs::read(whole.0.join("numbers")).unwrap();
    let heading = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in heading..=bytes.len() {
        let broken = TestFolder::new("broken");
        broken.journal().numbers();
        fs::write(broken.0.join("numbers"), &bytes[..end]).unwrap();
        let text = std::str::from_utf8(&bytes[heading..end]).unwrap();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let mut expected = Numbers::default();
        complete.lines().for_each(|entry| expected.restore(entry).unwrap());
        expected.0.insert(7);
        let mut journal = broken.journal();
        journal.add("+7");
        let expected: Vec<u64> = expected.0.into_iter().collect();
        assert_eq!((journal.numbers(), broken.journal().numbers()), (expected.clone(), expected), "{text:?}");
    }
}

/// Also after a process has ended while it rewrote the journal.
#[test]
fn journal_is_rewritten_when_it_has_grown() {
    let folder = TestFolder::new("rewritten");
    let (mut one, mut other) = (folder.journal(), folder.journal());
    one.add("+5");
    other.add("+3");
    fs::write(folder.0.join("numbers.new"), "numb").unwrap();
    let padding = " ".repeat(1 << 18);
    for _ in 0..2 {
        one.add(&format!("+9{padding}"));
        one.add(&format!("-9{padding}"));
    }
    let path = folder.0.join("numbers");
    assert!(fs::metadata(&path).unwrap().len() < LEAST_REWRITTEN);
    assert_eq!((one.numbers(), other.numbers()), (vec![3, 5], vec![3, 5]));
    other.add("-3");
    assert_eq!((one.numbers(), folder.journal().numbers()), (vec![5], vec![5]));
}

/// Each process has the entries of the journal, even if something else removed it or a part of it.
#[test]
fn processes_notice_a_journal_that_was_cut_or_removed() {
    let folder = TestFolder::new("cut");
    let (mut one, mut other) = (folder.journal(), folder.journal());
    one.add("+1");
    one.add("+2");
    assert_eq!(other.numbers(), [1, 2]);
    let path = folder.0.join("numbers");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
    other.add("+3");
    assert_eq!((one.numbers(), other.numbers()), (vec![1, 3], vec![1, 3]));
    fs::remove_file(&path).unwrap();
    one.add("+4");
    assert_eq!((one.numbers(), other.numbers()), (vec![4], vec![4]));
}

/// As on a full disk: the new journal cannot be created.
#[test]
fn entry_is_stored_even_if_the_journal_cannot_be_rewritten() {
    let folder = TestFolder::new("blocked");
    let mut journal = folder.journal();
    journal.add("+5");
    fs::create_dir(folder.0.join("numbers.new")).unwrap();
    let padding = " ".repeat(1 << 18);
    for number in 10..13 {
        journal.add(&format!("+{number}{padding}"));
        journal.add(&format!("-{number}{padding}"));
    }
    assert_eq!((journal.numbers(), folder.journal().numbers()), (vec![5], vec![5]));
    fs::remove_dir(folder.0.join("numbers.new")).unwrap();
    for number in 20..25 {
        journal.add(&format!("+{number}{padding}"));
        journal.add(&format!("-{number}{padding}"));
    }
    let length = fs::metadata(folder.0.join("numbers")).unwrap().len();
    assert!(length < LEAST_REWRITTEN, "{length}");
    assert_eq!(folder.journal().numbers(), [5]);
}

#[test]
fn journal_of_another_program_is_refused() {
    let folder = TestFolder::new("refused");
    folder.journal().numbers();
    fs::write(folder.0.join("numbers"), "notes\n").unwrap();
    let refused = folder.journal().read(|_| Ok(())).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}

fn at(seconds: u64) -> UnixTime {
    UnixTime::from_epoch(Duration::from_secs(seconds))
}

fn record(id: &str, created: u64) -> TaskRecord {
    let json = format!(
        r#"{{"id":"{id}","owner":"ada","version":0,"created_at":{created},"updated_at":{created},
            "ttl":60000,"poll_interval":1000,"message":null,"status":"working"}}"#
    );
    TaskRecord::from_json(&json).unwrap()
}

/// S11.2
#[test]
fn processes_share_tasks() {
    let folder = TestFolder::new("tasks");
    let [one, other] = folder.processes();
    block_on(async {
        for id in ["b", "a", "c"] {
            one.create(record(id, 1000)).await.unwrap();
        }
        assert_eq!(other.create(record("a", 1000)).await, Err(StoreError::Conflict));
        let mut changed = other.get("a").await.unwrap().unwrap();
        changed.state = StoredTaskState::Cancelled;
        assert_eq!(other.update(changed.clone()).await, Ok(1));
        assert_eq!(one.update(changed.clone()).await, Err(StoreError::Conflict), "it has changed");
        changed.version = 1;
        assert_eq!(one.get("a").await, Ok(Some(changed)));
        let ids =
            |page: TaskPage| (page.tasks.into_iter().map(|task| task.id).collect::<String>(), page.next);
        let ada = Principal::new("ada");
        let page = other.list(Some(&ada), None, 2).await.map(ids);
        assert_eq!(page, Ok(("ba".to_owned(), Some("a".to_owned()))));
        assert_eq!(one.list(Some(&ada), Some("a"), 2).await.map(ids), Ok(("c".to_owned(), None)));
        other.expire(at(61)).await.unwrap();
        assert_eq!(other.get("a").await, Ok(None));
    });
}

/// Tasks stay in the order of their creation, with their last changes.
#[test]
fn rewritten_tasks_are_the_same() {
    let folder = TestFolder::new("rewritten-tasks");
    let [one, other] = folder.processes();
    block_on(async {
        one.create(record("b", 1000)).await.unwrap();
        one.create(record("a", 1000)).await.unwrap();
        let mut changed = record("b", 1000);
        for version in 0..12 {
            changed.version = version;
            changed.message = Some(version.to_string().repeat(1 << 17));
            one.update(changed.clone()).await.unwrap();
        }
        changed.version = 12;
        let length = fs::metadata(folder.0.join("tasks")).unwrap().len();
        assert!(length < LEAST_REWRITTEN, "{length}");
        let page = other.list(Some(&Principal::new("ada")), None, 9).await.unwrap();
        assert_eq!(page.tasks, [changed, record("a", 1000)]);
    });
}

/// S4.6: of claims at once in several processes, one is the first.
#[test]
fn processes_use_an_id_once() {
    let folder = TestFolder::new("used");
    let [one, other] = folder.processes();
    let claim = |id, now| Claim { id, owner: QuotaOwner::LOCAL, now: at(now), since: at(0), expires: at(30) };
    for byte in 0..20 {
        for id in [UseId::State([byte; 12]), UseId::Proof([byte; 32])] {
            let both = block_on(zip(one.claim(claim(id, 1)), other.claim(claim(id, 1))));
            let first = [&both.0, &both.1].into_iter().filter(|claimed| **claimed == Ok(ClaimOutcome::First));
            assert_eq!(first.count(), 1, "{both:?}");
            let third = SharedFolder::new(&folder.0);
            assert_eq!(block_on(third.claim(claim(id, 29))), Ok(ClaimOutcome::Repeated));
        }
    }
}
