//! `mcpio skills`: lists the skills of a server, shows one, and verifies their files.

use mcp_proto::consent::SafeText;
use mcp_proto::front::Error;
use mcp_proto::host::tools::ItemKind;
use mcp_proto::schema::skills::{ListSkillsResult, Skill, SkillFiles};
use mcp_proto::skills::{SkillError, SkillErrorKind, SkillManifest, VerifiedFile};
use serde_json::{Value, json};

use crate::arguments;
use crate::connect::Connection;
use crate::error::{CommandError, Result};
use crate::show::{self, Table};
use crate::terminal::{BAD, GOOD, Screen, Text, styled};

/// Lists the skills, or shows one; with `verify` reads their files and compares them with the listing.
pub(crate) async fn run(
    connection: &Connection,
    skill: Option<&str>,
    verify: bool,
    screen: &mut Screen,
) -> Result {
    match (skill, verify) {
        (None, false) => list(connection, screen).await,
        (Some(skill), false) => show_one(connection, skill, screen).await,
        (None, true) => {
            let listed = listed(connection).await?;
            let invalid = listed.skills.invalid().iter();
            let mut reports: Vec<_> =
                invalid.map(|item| Report::unreadable(&item.json, &item.reason)).collect();
            for skill in listed.skills {
                let report = match SkillManifest::new(skill.clone()) {
                    Ok(manifest) => Report::of(connection, &manifest).await?,
                    Err(error) => Report::failed(&skill, &error),
                };
                reports.push(report);
            }
            print(&reports, screen)
        }
        (Some(skill), true) => {
            let manifest = find(connection, skill).await?;
            print(&[Report::of(connection, &manifest).await?], screen)
        }
    }
}

async fn listed(connection: &Connection) -> Result<ListSkillsResult> {
    let mut result = connection.client.list_skills_page(None).await?;
    if result.next_cursor.take().is_some() {
        result.skills = connection.client.list_skills().await?;
    }
    result.skills.retain(|skill| (connection.offers)(ItemKind::Resource, &skill.uri));
    Ok(result)
}

async fn list(connection: &Connection, screen: &mut Screen) -> Result {
    let result = listed(connection).await?;
    show::result(screen, &result, |screen| {
        let mut table = Table::new(&["uri", "files", "description"]);
        for skill in &result.skills {
            let about = match SkillManifest::new(skill.clone()) {
                Ok(_) => skill.description(),
                Err(error) => format!("must not be loaded: {}", error.kind),
            };
            table.row([&skill.uri, &extent(skill), &about]);
        }
        for item in result.skills.invalid() {
            table.row([&uri_of(&item.json), "", &format!("must not be loaded: {}", item.reason)]);
        }
        match result.skills.is_empty() && result.skills.invalid().is_empty() {
            true => {
                screen.line(
                    "The server lists no skills. It may have others, which it gives by their URI. --trace shows what a \
                     program writes to its log.",
                )
            }
            false => table.print(screen),
        }
    })
}

/// How many files, or that nothing of them can be verified.
fn extent(skill: &Skill) -> String {
    match &skill.resources {
        SkillFiles::Listed(files) => files.len().to_string(),
        SkillFiles::Dynamic => "dynamic".to_owned(),
    }
}

/// The URI in an entry that could not be read.
fn uri_of(entry: &mcp_proto::schema::Json) -> String {
    let entry: Value = entry.decode().unwrap_or_default();
    entry.get("uri").and_then(Value::as_str).unwrap_or("?").to_owned()
}

/// The skill of this URI, listed or not, or the only listed one of this name.
async fn find(connection: &Connection, skill: &str) -> Result<SkillManifest> {
    if skill.contains("://") {
        connection.check(ItemKind::Resource, skill)?;
        return Ok(connection.client.get_skill(skill).await?);
    }
    let listed = listed(connection).await?.skills;
    let named: Vec<_> = listed.iter().filter(|listed| listed.name() == skill).collect();
    match named.as_slice() {
        [one] => Ok(SkillManifest::new((*one).clone()).map_err(Error::from)?),
        [] => {
            let names: Vec<_> = listed.iter().map(Skill::name).collect();
            let known = arguments::suggest(skill, names.iter().map(String::as_str));
            Err(CommandError::usage(format_args!(
                "the server lists no skill {skill:?}{known}. Name one by its URI: the answer says why it is not served"
            )))
        }
        several => {
            let uris: Vec<_> = several.iter().map(|skill| SafeText::line(&skill.uri).to_string()).collect();
            let uris = uris.join(", ");
            Err(CommandError::usage(format_args!(
                "several skills are named {skill:?}: name one by its URI, of {uris}"
            )))
        }
    }
}

async fn show_one(connection: &Connection, skill: &str, screen: &mut Screen) -> Result {
    let skill = find(connection, skill).await?;
    let file = read(connection, &skill, skill.uri()).await?;
    let text = file.text().unwrap_or_default();
    let json = json!({ "skill": skill.skill(), "text": text });
    show::result(screen, &json, |screen| {
        let entry = skill.skill();
        let mut facts = vec![("uri", entry.uri.clone()), ("description", entry.description())];
        let tools = skill.requested_tools();
        if !tools.is_empty() {
            facts.push(("asks to use", tools.join(", ")));
        }
        match skill.is_dynamic() {
            true => facts.push(("files", "dynamic: nothing can be verified".to_owned())),
            false => {
                let path = |uri: &str| {
                    uri.strip_prefix(skill.folder()).unwrap_or(uri).trim_start_matches('/').to_owned()
                };
                let files: Vec<_> = entry.files().iter().map(|file| path(&file.uri)).collect();
                facts.push(("files", files.join("\n")));
            }
        }
        show::facts(screen, &facts)?;
        screen.line("")?;
        screen.line(Text::block(text))
    })
}

async fn read(connection: &Connection, skill: &SkillManifest, uri: &str) -> Result<VerifiedFile> {
    connection.check(ItemKind::Resource, uri)?;
    Ok(connection.client.read_skill_file(skill, uri).await?)
}

/// Whether the files of a skill are what its entry lists.
struct Report {
    uri: String,
    files: usize,
    bytes: u64,
    errors: Vec<String>,
}

impl Report {
    fn unreadable(entry: &mcp_proto::schema::Json, reason: &str) -> Self {
        Self { uri: uri_of(entry), files: 0, bytes: 0, errors: vec![reason.to_owned()] }
    }

    fn failed(skill: &Skill, error: &SkillError) -> Self {
        Self { uri: skill.uri.clone(), files: 0, bytes: 0, errors: vec![error.kind.to_string()] }
    }

    /// Reads every file, to its end, until one takes too long.
    ///
    /// # Errors
    /// If one cannot be asked for.
    async fn of(connection: &Connection, skill: &SkillManifest) -> Result<Self> {
        let mut report = Self { uri: skill.uri().to_owned(), files: 0, bytes: 0, errors: Vec::new() };
        if skill.is_dynamic() {
            report.errors.push(SkillErrorKind::Dynamic.to_string());
            return Ok(report);
        }
        for file in skill.skill().files() {
            connection.check(ItemKind::Resource, &file.uri)?;
            match connection.client.read_skill_file(skill, &file.uri).await {
                Ok(read) => {
                    report.files += 1;
                    report.bytes += read.bytes.len() as u64;
                }
                Err(Error::Skill(error)) => report.errors.push(format!("{}: {}", file.uri, error.kind)),
                // The listing is wrong if the server does not have the file.
                Err(Error::Peer(error)) => report.errors.push(format!("{}: {error}", file.uri)),
                // Its other files may take as long; other skills need not.
                Err(error) if error.is_timeout() => {
                    report.errors.push(format!("{}: {error}", file.uri));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(report)
    }

    fn as_json(&self) -> Value {
        let Self { uri, files, bytes, errors } = self;
        json!({ "uri": uri, "verified": errors.is_empty(), "files": files, "bytes": bytes, "errors": errors })
    }

    fn lines(&self) -> Vec<Text> {
        let Self { uri, files, bytes, errors } = self;
        if errors.is_empty() {
            let noun = if *files == 1 { "file" } else { "files" };
            return vec![styled(GOOD, "verified").and(format!(" {uri}: {files} {noun}, {bytes} bytes"))];
        }
        let error = |error: &String| Text::from(format!("  {error}"));
        let first = styled(BAD, "not verified").and(format!(" {uri}"));
        std::iter::once(first).chain(errors.iter().map(error)).collect()
    }
}

fn print(reports: &[Report], screen: &mut Screen) -> Result {
    let json = json!({ "skills": reports.iter().map(Report::as_json).collect::<Vec<_>>() });
    show::result(screen, &json, |screen| {
        if reports.is_empty() {
            screen.line("The server lists no skills.")?;
        }
        reports.iter().flat_map(Report::lines).try_for_each(|line| screen.line(line))
    })?;
    match reports.iter().all(|report| report.errors.is_empty()) {
        true => Ok(()),
        false => Err(CommandError::in_result("a skill is not what its server lists")),
    }
}
