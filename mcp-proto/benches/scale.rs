//! Cost of a round trip while other requests are in flight: with 100,000, at most twice the cost with one.
//!
//! `cargo bench -p mcp-proto --bench scale`.

mod measure;
mod pair;

use mcp_proto::schema::Era;
use measure::measure;
use pair::Pair;

const IN_FLIGHT: [usize; 3] = [1, 1_000, 100_000];

fn main() {
    println!("{:10} {:>10} {:>8} {:>12} {:>12}", "", "in flight", "ns", "allocations", "× of one");
    for (name, era) in [("modern", Era::Modern), ("legacy", Era::Legacy)] {
        let [mut one, mut thousand, mut many] = IN_FLIGHT.map(|in_flight| {
            let mut pair = Pair::ready(era, in_flight);
            // `round_trip` sends the last one.
            (1..in_flight).for_each(|_| drop(pair.ask()));
            pair
        });
        let costs =
            measure([&mut || one.round_trip(), &mut || thousand.round_trip(), &mut || many.round_trip()]);
        for (in_flight, cost) in IN_FLIGHT.into_iter().zip(costs) {
            let ratio = cost.nanoseconds / costs[0].nanoseconds;
            println!(
                "{name:10} {in_flight:>10} {:>8.0} {:>12} {ratio:>12.2}",
                cost.nanoseconds, cost.allocations
            );
        }
    }
}
