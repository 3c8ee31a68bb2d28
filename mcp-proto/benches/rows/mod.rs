//! Rows of a benchmark that compares candidates: measured in turns, or one of them repeated for a profiler.

use super::measure::{Cost, measure};

/// Measures the candidates of the row `name`; `None` if the command line excludes the row.
///
/// With arguments, only the rows are measured whose names contain one of them. With `--repeat N ROW`, and no more, the
/// candidate `ours` of that row runs N times instead; a further argument names another candidate. The difference
/// between runs of 2 N and N, divided by N, is the cost of one run.
pub(crate) fn measure_row<const N: usize>(
    name: &str,
    mut candidates: [(&str, &mut dyn FnMut()); N],
) -> Option<[Cost; N]> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, times, row, candidate @ ..] = &arguments[..]
        && flag == "--repeat"
    {
        let times: usize = times.parse().expect("a number of times");
        let wanted = candidate.first().map_or("ours", String::as_str);
        if row == name {
            let (_, run) =
                candidates.iter_mut().find(|(name, _)| *name == wanted).expect("a candidate's name");
            (0..times).for_each(|_| run());
        }
        return None;
    }
    let wanted = arguments.is_empty() || arguments.iter().any(|part| name.contains(part));
    wanted.then(|| measure(candidates.map(|(_, run)| run)))
}
