//! Processes that are killed while they write.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// The folder of a writing process, and its number.
const FOLDER: &str = "MCP_TEST_SHARED_FOLDER";
const NUMBER: &str = "MCP_TEST_NUMBER";
/// The line that a writing process prints before each operation that was confirmed.
const CONFIRMED: &str = "confirmed: ";
/// A task that all processes change.
const COUNTER: &str = "counter";

/// Starts a process that writes to the folder until it is killed. `setup` is a command of the shell that starts it.
fn start(folder: &TestFolder, number: u8, setup: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{setup}; exec \"$@\""), "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "shared_folder::tests::processes::writing_process"])
        .envs([(FOLDER, folder.0.as_os_str()), (NUMBER, number.to_string().as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Runs a process until it has confirmed this many operations, and kills it. Returns all that it has confirmed.
fn run_until_killed(folder: &TestFolder, number: u8, most: usize) -> Vec<String> {
    let mut child = start(folder, number, "true");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut confirmed = Vec::new();
    for line in lines {
        confirmed.extend(line.split_once(CONFIRMED).map(|(_, operation)| operation.to_owned()));
        if confirmed.len() == most {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(confirmed.len() >= most, "{number} has ended by itself");
    confirmed
}

fn state(number: u8, step: u32) -> Claim {
    let mut bytes = [number; 12];
    bytes[..4].copy_from_slice(&step.to_be_bytes());
    Claim { id: UseId::State(bytes), owner: QuotaOwner::LOCAL, now: at(1), since: at(0), expires: at(30) }
}

async fn count(folder: &SharedFolder) -> Result<u64, StoreError> {
    loop {
        let mut record = folder.get(COUNTER).await.unwrap().unwrap();
        // Sixteen of these rewrite the journal.
        record.message = Some("x".repeat(1 << 16));
        match folder.update(record).await {
            Err(StoreError::Conflict) => {}
            updated => return updated,
        }
    }
}

#[test]
#[ignore = "the processes of another test"]
fn writing_process() {
    let (Some(folder), Ok(number)) = (env::var_os(FOLDER), env::var(NUMBER)) else { return };
    let (folder, number) = (SharedFolder::new(folder), number.parse().unwrap());
    for step in 0.. {
        let claimed = block_on(folder.claim(state(number, step)));
        assert_eq!(claimed, Ok(ClaimOutcome::First));
        println!("{CONFIRMED}used {number} {step}");
        match block_on(count(&folder)) {
            Ok(version) => println!("{CONFIRMED}counted {version}"),
            Err(error) => return println!("refused: {error}"),
        }
    }
}

/// As on a full disk, of which others free a part.
#[test]
fn process_that_cannot_write_changes_nothing() {
    let folder = TestFolder::new("limited");
    let store = SharedFolder::new(&folder.0);
    block_on(store.create(record(COUNTER, 1000))).unwrap();
    // Files may have 512 or 1024 times 8 bytes. The signal would end the process at a longer one.
    let limited = start(&folder, 0, "ulimit -f 8; trap '' XFSZ");
    let output = limited.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    let used = output.lines().filter(|line| line.contains("used 0 ")).count();
    assert!(used < 3 && output.contains("refused: "), "{output}");
    // The first update is longer.
    assert_eq!(block_on(store.get(COUNTER)).unwrap().unwrap().version, 0);
    assert_eq!(block_on(count(&store)).unwrap(), 1);
    assert_eq!(block_on(SharedFolder::new(&folder.0).get(COUNTER)).unwrap().unwrap().version, 1);
}

/// S4.6, S11.2
#[test]
fn killed_processes_lose_nothing_that_they_confirmed() {
    let folder = TestFolder::new("killed");
    let store = SharedFolder::new(&folder.0);
    block_on(store.create(record(COUNTER, 1000))).unwrap();
    let confirmed: Vec<String> = std::thread::scope(|scope| {
        let series = [0, 1].map(|series| {
            let folder = &folder;
            let run =
                move |round: u8| run_until_killed(folder, 2 * round + series, 9 + usize::from(7 * round));
            scope.spawn(move || (0..3).flat_map(run).collect::<Vec<_>>())
        });
        series.into_iter().flat_map(|series| series.join().unwrap()).collect()
    });
    let mut counted = BTreeSet::new();
    for operation in confirmed {
        let words: Vec<&str> = operation.split(' ').collect();
        match words[..] {
            ["used", number, step] => {
                let claim = state(number.parse().unwrap(), step.parse().unwrap());
                assert_eq!(block_on(store.claim(claim)), Ok(ClaimOutcome::Repeated), "{operation}");
            }
            ["counted", version] => {
                assert!(counted.insert(version.parse::<u64>().unwrap()), "{operation} twice")
            }
            _ => panic!("{operation}"),
        }
    }
    let last = block_on(store.get(COUNTER)).unwrap().unwrap().version;
    // Each process may have stored one more version before it was killed.
    let unconfirmed = last - u64::try_from(counted.len()).unwrap();
    assert!(counted.last() <= Some(&last) && unconfirmed <= 6, "{last} {counted:?}");
}
