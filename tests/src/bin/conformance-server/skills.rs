//! A skill, with a file in a folder.

use mcp_proto::front::Router;
use mcp_proto::front::skills::InMemorySkill;

const MAIN_FILE: &str = "---\nname: pressing-flowers\ndescription: Press flowers between sheets of paper, and keep them\n---\n\n\
     Lay the flower between two sheets. Which paper to take is in references/PAPER.md.\n";

pub(crate) fn add(router: Router) -> Router {
    let paper = "Blotting paper, or any that has no coating.\n";
    router.skill(InMemorySkill::new(MAIN_FILE).file("references/PAPER.md", paper))
}
