//! Characters that look alike.

use super::SafeText;
use crate::prelude::*;

/// What a reader sees of a text, for comparisons only: texts that look alike have the same skeleton.
///
/// It has no upper case, accents, invisible characters, ligatures or styles of letters; look-alikes of other scripts are
/// Latin letters, and so are the digits 0 and 1.
pub(crate) fn skeleton(text: &str) -> String {
    let mut skeleton = String::with_capacity(text.len());
    for character in text.trim().chars().flat_map(prototype) {
        match character {
            'm' => skeleton.push_str("rn"),
            'w' => skeleton.push_str("vv"),
            ' ' | '_' | '.' => skeleton.push('-'),
            character => skeleton.push(character),
        }
    }
    skeleton
}

/// The characters that this one looks like, in lower case: several if it is a ligature, none if it shows nothing by
/// itself.
pub(crate) fn prototype(character: char) -> impl Iterator<Item = char> {
    let (letters, single) = if SafeText::is_unsafe(character) || is_mark(character) {
        ("", None)
    } else if character.is_ascii() {
        ("", Some(character))
    } else {
        let character = greek_of_mathematics(character).unwrap_or(character);
        let lower = character.to_lowercase().next().unwrap_or(character);
        match look_alike(character).or_else(|| look_alike(lower)) {
            Some(letters) => (letters, None),
            None => ("", Some(without_style(character).unwrap_or(lower))),
        }
    };
    letters.chars().chain(single).map(|plain| match plain.to_ascii_lowercase() {
        '1' | '|' | 'i' => 'l',
        '0' => 'o',
        plain if plain.is_whitespace() => ' ',
        plain => plain,
    })
}

/// Whether the character opens a bracket, and looks like `[`.
pub(crate) fn is_opening_bracket(character: char) -> bool {
    character == '[' || (!character.is_ascii() && "［【〔〖〘〚⁅⟦❲｢「﹇﹝︹︻︗﹁⦋⦍⦏".contains(character))
}

/// Whether the character is drawn on the one before it.
const fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}'
    )
}

/// The character of ASCII of which this one is a style, if its block has the whole alphabet.
fn without_style(character: char) -> Option<char> {
    let code = u32::from(character);
    let letter = |first: u32, alphabet: u32| {
        let offset = code.saturating_sub(first).checked_rem(alphabet)? % 26;
        Some(char::from(b'a'.saturating_add(u8::try_from(offset).ok()?)))
    };
    match code {
        0xff01..=0xff5e => char::from_u32(code.saturating_sub(0xfee0)),
        // Styles of mathematics, each of 26 upper-case and 26 lower-case letters, and of digits.
        0x1d400..=0x1d6a3 => letter(0x1d400, 52),
        0x1d7ce..=0x1d7ff => char::from_digit(code.saturating_sub(0x1d7ce) % 10, 10),
        // Outlined capital letters and digits.
        0x1ccd6..=0x1ccef => letter(0x1ccd6, 26),
        0x1ccf0..=0x1ccf9 => char::from_digit(code.saturating_sub(0x1ccf0), 10),
        // Letters in parentheses, circles and squares.
        0x249c..=0x24e9 => letter(0x249c, 26),
        0x1f110..=0x1f129 | 0x1f130..=0x1f149 | 0x1f150..=0x1f169 | 0x1f170..=0x1f189 => letter(0x1f110, 32),
        _ => None,
    }
}

/// The Greek letter of which this one is a style of mathematics, each of 25 upper-case and 25 lower-case letters with
/// further signs after them.
fn greek_of_mathematics(character: char) -> Option<char> {
    let offset = match u32::from(character) {
        code @ 0x1d6a8..=0x1d7c9 => code.saturating_sub(0x1d6a8) % 58,
        _ => return None,
    };
    match offset {
        0..=24 => char::from_u32(offset.saturating_add(0x391)),
        26..=50 => char::from_u32(offset.saturating_add(0x3b1 - 26)),
        52 => Some('ϵ'),
        54 => Some('ϰ'),
        56 => Some('ϱ'),
        _ => None,
    }
}

/// The text of ASCII that the character looks like; `None` for one of ASCII, which the rows begin with.
fn look_alike(character: char) -> Option<&'static str> {
    let (before, _) = LOOK_ALIKES.split_once(character).filter(|_| !character.is_ascii())?;
    let row = before.rsplit(' ').next()?;
    Some(row.trim_end_matches(|c: char| !c.is_ascii()))
}

/// Rows of a text of ASCII and the characters that look like it: letters with marks, in other scripts and in other
/// sizes, ligatures, and everything else that Unicode decomposes to ASCII. Letters whose upper case looks like another
/// letter are there in both cases.
const LOOK_ALIKES: &str = "\
    aàáâãäåāăąǎǟǡǻȁȃȧạảấầẩẫậắằẳẵặɑᴀαаӑӓꭺꓮªᴬᵃḁₐ \
    bƀƃɓḃḅḇʙвьβϐꮟᏼꓐᴮᵇℬ cçćĉċčƈȼḉᴄⅽсϲҫꮯꓚᶜℂℭꟲ🄫 dďđɖɗḋḍḏḑḓᴅⅾԁꭰꮷꓓᴰᵈⅅⅆ \
    eèéêëēĕėęěȅȇȩɇḕḗḙḛḝẹẻẽếềểễệᴇ℮εϵеѐёєԑҽꭼꓰᴱᵉₑℯℰⅇ \
    fƒḟꜰϝꓝᶠℱꟳ gĝğġģǥǧǵɠɡḡԍցꮐᏻꓖᴳᵍℊ hĥħȟɦḣḥḧḩḫẖʜℎΗһнћհꮋꮒꓧʰᴴₕℋℌℍ \
    lìíîïĩīĭįı𝚤ǐȉȋɨḭḯỉịɩɪⅰιіїӏĺļľŀłƚɫḷḹḻḽⅼℓʟǀ∣ꭵꮮꓡꓲ¹₁①🯱ˡᴸₗℒᴵᵢⁱℐℑℹⅈ \
    jĵǰɉϳ𝚥јյꭻꓙʲᴶⅉⱼ kķƙǩḱḳḵᴋκϰкқҝꮶꓗᴷᵏₖ mḿṁṃᴍⅿΜмꮇꓟᴹᵐₘℳ nñńņňŉǹɲṅṇṉṋηΝпոɴꓠᴺⁿₙℕ \
    oòóôõöøōŏőơǒǫǭǿȍȏȫȭȯȱọỏốồổỗộớờởỡợᴏοσςоӧօ੦๐ꓳºᴼᵒṍṏṑṓₒℴ⁰₀⓪🯰 \
    pƥṕṗᴘρϱрꮲꓑᴾᵖₚℙ qɋԛգℚꟴ𐞥 rŕŗřȑȓɍṙṛṝṟʀᴦгꭱꮢꓣʳᴿᵣℛℜℝ🄬 sśŝşšșṡṣṥṧṩꜱʂѕſꮥꮪꓢˢẛₛ tţťŧƭțṫṭṯṱẗᴛτтꭲꓔᵀᵗₜ \
    uùúûüũūŭůűųưǔǖǘǚǜȕȗṳṵṷṹṻụủứừửữựᴜυμµսꓴᵁᵘᵤ vṽṿᴠⅴνѵꮩꓦᵛᵥⱽ wŵẁẃẅẇẉẘᴡωшԝաꮃꮤꓪʷᵂ xẋẍⅹ×χхҳꓫˣₓ \
    yýÿŷȳẏẙỳỵỷỹʏγΥϒуүұꭹꮍꓬʸ zźżžƶȥẑẓẕᴢζꮓꓜᶻℤℨ 3зӡ³₃③🯳 -‐‑‒–—―−⁃﹘﹣ー・·• [【〔〖〘〚⁅⟦❲｢「﹇﹝︹︻︗﹁⦋⦍⦏ \
    ]】〕〗〙〛⁆⟧❳｣」﹈﹞︺︼︘﹂⦌⦎⦐ .․。｡ꓸ﹒ _ˍ‗﹍﹎﹏︳︴ 2²₂②🯲 4ꮞ⁴₄④🯴 5⁵₅⑤🯵 6ꮾ⁶₆⑥🯶 7⁷₇⑦🯷 8⁸₈⑧🯸 9⁹₉⑨🯹 ijĳ dzǆǳ ljǉ \
    njǌ rs₨ no№ sm℠ tel℡ tm™ fax℻ iiⅱ iiiⅲ ivⅳ viⅵ viiⅶ viiiⅷ ixⅸ xiⅺ xiiⅻ 10⑩ 11⑪ 12⑫ 13⑬ 14⑭ \
    15⑮ 16⑯ 17⑰ 18⑱ 19⑲ 20⑳ pte㉐ 21㉑ 22㉒ 23㉓ 24㉔ 25㉕ 26㉖ 27㉗ 28㉘ 29㉙ 30㉚ 31㉛ 32㉜ 33㉝ 34㉞ 35㉟ 36㊱ \
    37㊲ 38㊳ 39㊴ 40㊵ 41㊶ 42㊷ 43㊸ 44㊹ 45㊺ 46㊻ 47㊼ 48㊽ 49㊾ 50㊿ hg㋌ erg㋍ ev㋎ ltd㋏ hpa㍱ da㍲ au㍳ bar㍴ \
    ov㍵ pc㍶ dm㍷ dm2㍸ dm3㍹ iu㍺ pa㎀㎩ na㎁ ma㎃ ka㎄ kb㎅ mb㎆㏔ gb㎇ cal㎈ kcal㎉ pf㎊ nf㎋ mg㎎ kg㎏ hz㎐ khz㎑ \
    mhz㎒ ghz㎓ thz㎔ ml㎖ dl㎗ kl㎘ fm㎙ nm㎚ mm㎜ cm㎝ km㎞㏎ mm2㎟ cm2㎠ m2㎡ km2㎢ mm3㎣ cm3㎤ m3㎥ km3㎦ kpa㎪ \
    mpa㎫ gpa㎬ rad㎭ ps㎰ ns㎱ ms㎳ pv㎴ nv㎵ mv㎷㎹🅋 kv㎸ pw㎺ nw㎻ mw㎽㎿ kw㎾ bq㏃ cc㏄ cd㏅🄭 co.㏇ db㏈ gy㏉ ha㏊ \
    hp㏋ in㏌ kk㏍ kt㏏ lm㏐ ln㏑ log㏒ lx㏓ mil㏕ mol㏖ ph㏗ ppm㏙ pr㏚ sr㏛ sv㏜ wb㏝ gal㏿ ffﬀ fiﬁ flﬂ ffiﬃ \
    fflﬄ stﬅﬆ wz🄮 hv🅊 sd🅌 ss🅍 ppv🅎 wc🅏 mc🅪 md🅫 mr🅬 dj🆐";

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
            ("slack", "ſlack"),
            ("slack", "ˢˡᵃᶜᵏ"),
            ("hugging", "ℍ𝐮ℊᵍⁱⁿ⒢"),
            ("drive", "ꓓꓣꓲꓦꓰ"),
            ("drive", "ᎠᎡᎥᏙᎬ"),
            ("drive", "ꭰꭱꭵꮩꭼ"),
            ("office", "oﬃce"),
            ("test", "teﬆ"),
            ("s3", "ₛ₃"),
            ("level9", "ℓⓔ⒱ᴱl⑨"),
            ("xii", "Ⅻ"),
            ("github", "gİthub"),
            ("slack", "slac\u{212a}"),
            ("github", "gi𝛕hub"),
            ("github", "g𝚤thub"),
            ("okey", "𝜊𝛞𝛜ϒ"),
            ("ab1", "\u{1ccd6}\u{1ccd7}\u{1ccf1}"),
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
