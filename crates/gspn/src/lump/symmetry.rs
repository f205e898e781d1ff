//! Replicas in a net: blocks of places that can be exchanged without anybody seeing a difference.
//!
//! Colours of places and transitions are refined until neighbours tell no more; then one place of a colour is told apart from its
//! like, and what is told apart with it is its replica. What is found in this way is only a guess: each exchange of two replicas is
//! checked against the whole net, with its arcs, rates, weights and initial tokens, before it counts.

use hashbrown::{HashMap, HashSet};

use crate::net::{Arc, Kind, Net, Phase, Rate, Servers, Transition};

/// Fewer replicas than this are not worth the while.
const FEWEST: usize = 4;
/// Places and transitions up to which replicas are looked for.
const LARGEST: usize = 4_000;
/// Nodes that are coloured, over all rounds.
const WORK: usize = 4_000_000;

/// Replicas that can be exchanged: for each its places, those that correspond at the same position.
pub(crate) type Family = Vec<Vec<usize>>;

/// The exchanges that leave a net as it is.
#[derive(Debug, Clone)]
pub(crate) struct Symmetry {
    pub(super) families: Vec<Family>,
    /// For each place those that it can be exchanged with, itself included.
    orbits: Vec<Vec<usize>>,
}

impl Symmetry {
    /// Exchanges that also leave each place in `fixed` where it is; `None` where there are none worth the while.
    pub(crate) fn of(net: &Net, fixed: &HashSet<usize>) -> Option<Self> {
        let count = net.places().len() + net.transitions().len();
        if count > LARGEST || net.places().len() < FEWEST {
            return None;
        }
        let graph = Graph::new(net);
        let mut work = 0;
        let base = graph.refine(graph.start(net, fixed), &mut work, |colours| {
            // Places that are told apart stay so: with too few alike there is nothing to be found.
            let mut alike = vec![0; count];
            colours[..net.places().len()].iter().any(|colour| {
                alike[*colour as usize] += 1;
                alike[*colour as usize] >= FEWEST
            })
        })?;
        let mut families: Vec<Family> = Vec::new();
        let mut done: HashSet<usize> = HashSet::new();
        let keys = keys(net, &HashMap::new());
        for cell in cells(&base[..net.places().len()]) {
            if cell.len() < FEWEST || cell.iter().any(|place| done.contains(place)) {
                continue;
            }
            let Some(family) = graph.family(&cell, &base, net.places().len(), &mut work) else { continue };
            let exchanged = family.windows(2).all(|pair| exchanges(net, &keys, &pair[0], &pair[1]));
            if exchanged && family.iter().flatten().all(|place| !done.contains(place)) {
                done.extend(family.iter().flatten());
                families.push(family);
            }
        }
        if families.is_empty() {
            return None;
        }
        let mut orbits: Vec<Vec<usize>> = (0..net.places().len()).map(|place| vec![place]).collect();
        for family in &families {
            for position in 0..family[0].len() {
                let orbit: Vec<usize> = family.iter().map(|block| block[position]).collect();
                for place in &orbit {
                    orbits[*place].clone_from(&orbit);
                }
            }
        }
        Some(Self { families, orbits })
    }

    /// The places that `place` can be exchanged with, itself included.
    pub(crate) fn orbit(&self, place: usize) -> &[usize] {
        &self.orbits[place]
    }

    /// Exchanges replicas until they stand in falling order: the same marking for all that can be exchanged into each other.
    pub(crate) fn settle(&self, marking: &mut [u64]) {
        for family in &self.families {
            let mut replicas: Vec<Vec<u64>> =
                family.iter().map(|block| block.iter().map(|place| marking[*place]).collect()).collect();
            if replicas.is_sorted_by(|one, other| one >= other) {
                continue;
            }
            replicas.sort_unstable_by(|one, other| other.cmp(one));
            for (block, tokens) in family.iter().zip(replicas) {
                for (place, tokens) in block.iter().zip(tokens) {
                    marking[*place] = tokens;
                }
            }
        }
    }

    /// How many markings can be exchanged into this one, which is settled; `None` beyond what a number can say.
    pub(crate) fn size(&self, marking: &[u64]) -> Option<u64> {
        let mut size = 1_u128;
        for family in &self.families {
            let tokens = |block: &[usize]| -> Vec<u64> { block.iter().map(|place| marking[*place]).collect() };
            let (mut alike, mut last) = (0_u128, None);
            for (placed, block) in (1_u128..).zip(family) {
                let now = tokens(block);
                alike = if last.as_ref() == Some(&now) { alike + 1 } else { 1 };
                last = Some(now);
                // One more replica goes to any of `placed` positions; like ones are not told apart.
                size = size.checked_mul(placed)? / alike;
            }
        }
        u64::try_from(size).ok()
    }

    /// For each transition those that it is exchanged with.
    pub(super) fn transitions(&self, net: &Net) -> Vec<Vec<usize>> {
        let own = keys(net, &HashMap::new());
        let mut class: Vec<usize> = (0..net.transitions().len()).collect();
        let root = |class: &[usize], mut at: usize| {
            while class[at] != at {
                at = class[at];
            }
            at
        };
        let mut join = |one: usize, other: usize| {
            let (one, other) = (root(&class, one), root(&class, other));
            class[one.max(other)] = one.min(other);
        };
        let mut by_key: HashMap<&Key, usize> = HashMap::new();
        for (index, key) in own.iter().enumerate() {
            let first = *by_key.entry(key).or_insert(index);
            join(first, index);
        }
        for pair in self.families.iter().flat_map(|family| family.windows(2)) {
            for (index, key) in keys(net, &exchange(&pair[0], &pair[1])).iter().enumerate() {
                if let Some(image) = by_key.get(key) {
                    join(index, *image);
                }
            }
        }
        let mut all: HashMap<usize, Vec<usize>> = HashMap::new();
        let roots: Vec<usize> = (0..class.len()).map(|index| root(&class, index)).collect();
        for (index, root) in roots.iter().enumerate() {
            all.entry(*root).or_default().push(index);
        }
        roots.iter().map(|root| all[root].clone()).collect()
    }
}

/// What a transition is, with its places exchanged: all that matters of it.
type Key = (Vec<u64>, Vec<(usize, u64)>, Vec<(usize, u64)>, Vec<(usize, u64)>);

fn exchange(one: &[usize], other: &[usize]) -> HashMap<usize, usize> {
    one.iter().zip(other).flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect()
}

fn keys(net: &Net, exchange: &HashMap<usize, usize>) -> Vec<Key> {
    let to = |place: usize| exchange.get(&place).copied().unwrap_or(place);
    let arcs = |arcs: &[Arc]| {
        let mut arcs: Vec<(usize, u64)> = arcs.iter().map(|arc| (to(arc.place), arc.count)).collect();
        arcs.sort_unstable();
        arcs
    };
    let key = |it: &Transition| {
        let mut sort = sort(&it.kind);
        sort.extend(looked_at(&it.kind).map(|place| to(place) as u64));
        (sort, arcs(&it.inputs), arcs(&it.outputs), arcs(&it.inhibitors))
    };
    net.transitions().iter().map(key).collect()
}

/// The place whose tokens change a rate or a weight.
fn looked_at(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::Timed { rate: Rate::ByTokens { place, .. }, .. } => Some(*place),
        Kind::Immediate { by, .. } => *by,
        _ => None,
    }
}

/// The kind of a transition in numbers, without the place that it looks at.
fn sort(kind: &Kind) -> Vec<u64> {
    match kind {
        Kind::Timed { rate, servers } => {
            let servers = if let Servers::Finite(servers) = servers { *servers } else { 0 };
            match rate {
                Rate::Constant(rate) => vec![0, servers, rate.to_bits()],
                Rate::ByTokens { rates, .. } => {
                    [1, servers].into_iter().chain(rates.iter().map(|rate| rate.to_bits())).collect()
                }
            }
        }
        Kind::Immediate { weight, priority, by } => {
            vec![2, u64::from(*priority), weight.to_bits(), u64::from(by.is_some())]
        }
        Kind::Deterministic { delay } => vec![3, delay.to_bits()],
        Kind::Phase(Phase::Erlang { stages, rate }) => vec![4, u64::from(*stages), rate.to_bits()],
        Kind::Phase(Phase::Hyper(phases)) => numbers(5, phases),
        Kind::Phase(Phase::Coxian(phases)) => numbers(6, phases),
    }
}

fn numbers(sort: u64, pairs: &[(f64, f64)]) -> Vec<u64> {
    std::iter::once(sort).chain(pairs.iter().flat_map(|(one, other)| [one.to_bits(), other.to_bits()])).collect()
}

/// Whether the net stays what it is when the places of two replicas are exchanged.
fn exchanges(net: &Net, keys: &[Key], one: &[usize], other: &[usize]) -> bool {
    let tokens = |place: &usize| net.places()[*place].tokens;
    if one.iter().map(tokens).ne(other.iter().map(tokens)) {
        return false;
    }
    let mut counts: HashMap<&Key, i64> = HashMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    let exchanged = self::keys(net, &exchange(one, other));
    for key in &exchanged {
        match counts.get_mut(key) {
            Some(count) => *count -= 1,
            None => return false,
        }
    }
    counts.values().all(|count| *count == 0)
}

/// Nodes by colour, those with the lowest numbers first.
fn cells(colours: &[u32]) -> Vec<Vec<usize>> {
    let mut cells: Vec<Vec<usize>> = Vec::new();
    let mut of: HashMap<u32, usize> = HashMap::new();
    for (node, colour) in colours.iter().enumerate() {
        let cell = *of.entry(*colour).or_insert_with(|| {
            cells.push(Vec::new());
            cells.len() - 1
        });
        cells[cell].push(node);
    }
    cells
}

/// Places, then transitions, and the arcs between them from both ends.
struct Graph {
    arcs: Vec<Vec<(u64, usize)>>,
}

impl Graph {
    fn new(net: &Net) -> Self {
        let places = net.places().len();
        let mut arcs = vec![Vec::new(); places + net.transitions().len()];
        let mut join = |place: usize, transition: usize, sort: u64, count: u64| {
            let label = count.wrapping_mul(8).wrapping_add(sort);
            arcs[place].push((label, places + transition));
            arcs[places + transition].push((label.wrapping_add(4), place));
        };
        for (index, it) in net.transitions().iter().enumerate() {
            for (sort, list) in [(0, &it.inputs), (1, &it.outputs), (2, &it.inhibitors)] {
                list.iter().for_each(|arc| join(arc.place, index, sort, arc.count));
            }
            if let Some(place) = looked_at(&it.kind) {
                join(place, index, 3, 1);
            }
        }
        Self { arcs }
    }

    /// Colours by what a node is.
    fn start(&self, net: &Net, fixed: &HashSet<usize>) -> Vec<u32> {
        let places = net.places().iter().enumerate().map(|(index, place)| {
            let own = if fixed.contains(&index) { index as u64 + 1 } else { 0 };
            vec![7, place.tokens, own]
        });
        let all: Vec<Vec<u64>> = places.chain(net.transitions().iter().map(|it| sort(&it.kind))).collect();
        number(all.iter().map(Vec::as_slice))
    }

    /// Tells nodes apart by the colours of their neighbours, until that tells no more; `None` as soon as `go_on` says no of them.
    fn refine(&self, mut colours: Vec<u32>, work: &mut usize, go_on: impl Fn(&[u32]) -> bool) -> Option<Vec<u32>> {
        let mut count = colours.iter().max().map_or(0, |most| *most as usize + 1);
        // What each node sees, one behind the other, and where that ends.
        let (mut seen, mut ends) = (Vec::new(), Vec::with_capacity(self.arcs.len()));
        while go_on(&colours) {
            *work += colours.len();
            seen.clear();
            ends.clear();
            for (node, arcs) in self.arcs.iter().enumerate() {
                let start = seen.len();
                let look =
                    |(label, to): &(u64, usize)| label.wrapping_mul(1 << 32).wrapping_add(u64::from(colours[*to]));
                seen.extend(arcs.iter().map(look));
                seen[start..].sort_unstable();
                seen.push(u64::from(colours[node]));
                ends.push(seen.len());
            }
            let starts = std::iter::once(0).chain(ends.iter().copied());
            let next = number(starts.zip(&ends).map(|(start, end)| &seen[start..*end]));
            let now = next.iter().max().map_or(0, |most| *most as usize + 1);
            colours = next;
            if now == count {
                return Some(colours);
            }
            count = now;
        }
        None
    }

    /// For each place of a cell what is told apart when it is: the replicas, if they share nothing and are of one shape.
    fn family(&self, cell: &[usize], base: &[u32], places: usize, work: &mut usize) -> Option<Family> {
        let sizes: HashMap<u32, usize> = base.iter().fold(HashMap::new(), |mut sizes, colour| {
            *sizes.entry(*colour).or_default() += 1;
            sizes
        });
        let mut family = Vec::new();
        let mut taken: HashSet<usize> = HashSet::new();
        for place in cell {
            if *work > WORK {
                return None;
            }
            let mut colours = base.to_vec();
            colours[*place] = u32::try_from(base.len()).ok()?;
            let apart = self.refine(colours, work, |_| true)?;
            let mut block: Vec<usize> = cells(&apart)
                .into_iter()
                .filter_map(|cell| if let [node] = cell.as_slice() { Some(*node) } else { None })
                .filter(|node| *node < places && sizes[&base[*node]] > 1)
                .collect();
            block.sort_by_key(|node| base[*node]);
            if block.windows(2).any(|pair| base[pair[0]] == base[pair[1]]) || !block.iter().all(|it| taken.insert(*it))
            {
                return None;
            }
            family.push(block);
        }
        let shape = |block: &[usize]| -> Vec<u32> { block.iter().map(|node| base[*node]).collect() };
        family.iter().all(|block| shape(block) == shape(&family[0])).then_some(family)
    }
}

/// The same number for the same, from 0 in the order in which they come.
fn number<'a>(all: impl Iterator<Item = &'a [u64]>) -> Vec<u32> {
    let mut numbers: HashMap<&[u64], u32> = HashMap::new();
    all.map(|it| {
        #[expect(clippy::cast_possible_truncation, reason = "no more than nodes")]
        let next = numbers.len() as u32;
        *numbers.entry(it).or_insert(next)
    })
    .collect()
}
