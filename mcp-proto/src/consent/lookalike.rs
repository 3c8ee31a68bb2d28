//! Characters that look alike.

use alloc::string::String;

use super::SafeText;

/// What a reader sees of a text, for comparisons only: texts that look alike have the same skeleton.
///
/// It has no upper case, accents, invisible characters or styles of letters; look-alikes of other scripts are Latin
/// letters, and so are the digits 0 and 1.
pub(crate) fn skeleton(text: &str) -> String {
    let mut skeleton = String::with_capacity(text.len());
    for character in text.trim().chars() {
        match prototype(character) {
            Some('m') => skeleton.push_str("rn"),
            Some('w') => skeleton.push_str("vv"),
            Some(' ' | '_' | '.') => skeleton.push('-'),
            Some(character) => skeleton.push(character),
            None => {}
        }
    }
    skeleton
}

/// The character that this one looks like, in lower case; `None` if it shows nothing by itself.
pub(crate) fn prototype(character: char) -> Option<char> {
    if SafeText::is_unsafe(character) || is_mark(character) {
        return None;
    }
    let plain = if character.is_ascii() { character } else { latin(character) };
    Some(match plain.to_ascii_lowercase() {
        '1' | '|' | 'i' => 'l',
        '0' => 'o',
        plain if plain.is_whitespace() => ' ',
        plain => plain,
    })
}

/// Whether the character opens a bracket, and looks like `[`.
pub(crate) const fn is_opening_bracket(character: char) -> bool {
    matches!(character, '[' | '［' | '【' | '〔' | '〖' | '〘' | '〚' | '⁅' | '⟦' | '❲' | '｢' | '「')
}

/// Whether the character is drawn on the one before it.
const fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
    )
}

/// The character of ASCII that a character looks like, else the character itself in lower case.
fn latin(character: char) -> char {
    let code = u32::from(character);
    let letter = |first: u32, alphabet: u32| {
        let offset = code.saturating_sub(first).checked_rem(alphabet).unwrap_or_default() % 26;
        char::from(b'a'.saturating_add(u8::try_from(offset).unwrap_or_default()))
    };
    match code {
        0xff01..=0xff5e => char::from_u32(code.saturating_sub(0xfee0)).unwrap_or(character),
        // Styles of mathematics, each of 26 upper-case and 26 lower-case letters, and of digits.
        0x1d400..=0x1d6a3 => letter(0x1d400, 52),
        0x1d7ce..=0x1d7ff => char::from_digit(code.saturating_sub(0x1d7ce) % 10, 10).unwrap_or(character),
        // Letters in circles and squares.
        0x24b6..=0x24e9 => letter(0x24b6, 26),
        0x1f130..=0x1f149 | 0x1f150..=0x1f169 | 0x1f170..=0x1f189 => letter(0x1f130, 32),
        _ => {
            let lower = character.to_lowercase().next().unwrap_or(character);
            let of = |wanted: char| LOOK_ALIKES.iter().find(|(_, alike)| alike.contains(wanted));
            of(character).or_else(|| of(lower)).map_or(lower, |(plain, _)| *plain)
        }
    }
}

/// Characters of other scripts, and Latin letters with marks, by the character of ASCII that they look like. Letters
/// whose upper case looks like another letter are there in both cases.
const LOOK_ALIKES: [(char, &str); 31] = [
    ('a', "àáâãäåāăąǎǟǡǻȁȃȧạảấầẩẫậắằẳẵặɑᴀαаӑӓ"),
    ('b', "ƀƃɓḃḅḇʙᏏвьβ"),
    ('c', "çćĉċčƈȼḉᴄⅽсϲҫ"),
    ('d', "ďđɖɗḋḍḏḑḓᴅⅾԁ"),
    ('e', "èéêëēĕėęěȅȇȩɇḕḗḙḛḝẹẻẽếềểễệᴇ℮εеѐёєԑҽ"),
    ('f', "ƒḟſꜰϝ"),
    ('g', "ĝğġģǥǧǵɠɡḡԍց"),
    ('h', "ĥħȟɦḣḥḧḩḫẖʜℎΗһнћհ"),
    ('l', "ìíîïĩīĭįıǐȉȋɨḭḯỉịɩɪⅰιіїӏĺļľŀłƚɫḷḹḻḽⅼℓʟǀ∣"),
    ('j', "ĵǰɉϳјյ"),
    ('k', "ķƙǩḱḳḵᴋκкқҝ"),
    ('m', "ḿṁṃᴍⅿΜм"),
    ('n', "ñńņňŉǹɲṅṇṉṋηΝпոɴ"),
    ('o', "òóôõöøōŏőơǒǫǭǿȍȏȫȭȯȱọỏốồổỗộớờởỡợᴏοσςоӧօ੦๐"),
    ('p', "ƥṕṗᴘρр"),
    ('q', "ɋԛգ"),
    ('r', "ŕŗřȑȓɍṙṛṝṟʀᴦг"),
    ('s', "śŝşšșṡṣṥṧṩꜱʂѕ"),
    ('t', "ţťŧƭțṫṭṯṱẗᴛτт"),
    ('u', "ùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữựᴜυμµս"),
    ('v', "ṽṿᴠⅴνѵ"),
    ('w', "ŵẁẃẅẇẉẘᴡωшԝա"),
    ('x', "ẋẍⅹ×χхҳ"),
    ('y', "ýÿŷȳẏẙỳỵỷỹʏγΥуүұ"),
    ('z', "źżžƶȥẑẓẕᴢζ"),
    ('3', "зӡ"),
    ('-', "‐‑‒–—―−⁃﹘﹣ー・·•"),
    ('[', "【〔〖〘〚⁅⟦❲｢「"),
    (']', "】〕〗〙〛⁆⟧❳｣」"),
    ('.', "․。｡"),
    ('_', "ˍ‗﹍﹎﹏"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_alike_have_one_skeleton() {
        for (name, alike) in [
            ("github", "ＧｉｔＨｕｂ"),
            ("github", "gіthub"),
            ("github", "GITΗUB"),
            ("github", "git\u{200b}hub"),
            ("github", "𝗀𝗂𝗍𝗁𝗎𝖻"),
            ("github", "ⓖⓘⓣⓗⓤⓑ"),
            ("github", "🄶🅸🆃hub"),
            ("github", "g\u{301}ithúb"),
            ("github", "g1thub"),
            ("github", " github "),
            ("my files", "my_files"),
            ("my-files", "my‑files"),
            ("model", "rnodeI"),
            ("web", "vveb"),
            ("tool0", "toolо"),
            ("ΟΔΟΣ", "οδος"),
        ] {
            assert_eq!(skeleton(name), skeleton(alike), "{name} {alike}");
        }
    }

    #[test]
    fn texts_that_look_different_have_different_skeletons() {
        for (name, other) in
            [("github", "gitlab"), ("files", "file"), ("緑茶", "紅茶"), ("a", "b"), ("7", "1")]
        {
            assert_ne!(skeleton(name), skeleton(other), "{name} {other}");
        }
    }
}
