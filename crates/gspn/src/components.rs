//! Strongly connected components of a directed graph.

/// A graph on the numbers below a count.
pub(crate) trait Graph {
    /// How many nodes.
    fn nodes(&self) -> usize;
    /// The `index`-th successor of `node`; `None` behind the last.
    fn successor(&self, node: usize, index: usize) -> Option<usize>;
}

/// The components, sinks first: nothing leads from one to a later one.
#[derive(Debug)]
pub(crate) struct Components {
    /// The component of each node.
    pub(crate) of: Vec<u32>,
    /// Nodes, component after component; within one in rising order.
    nodes: Vec<u32>,
    /// Where each component starts in `nodes`, and at the end their count.
    starts: Vec<u32>,
}

impl Components {
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The nodes of a component, in rising order.
    pub(crate) fn nodes(&self, component: usize) -> &[u32] {
        &self.nodes[self.starts[component] as usize..self.starts[component + 1] as usize]
    }
}

const NONE: u32 = u32::MAX;

/// Tarjan's algorithm with a stack of its own.
#[expect(clippy::cast_possible_truncation, reason = "graphs here have fewer than `u32::MAX` nodes")]
pub(crate) fn of(graph: &impl Graph) -> Components {
    let count = graph.nodes();
    let mut order = vec![NONE; count];
    let mut low = vec![0_u32; count];
    let mut components = Components { of: vec![NONE; count], nodes: Vec::with_capacity(count), starts: vec![0] };
    let mut open: Vec<u32> = Vec::new();
    let mut path: Vec<(u32, u32)> = Vec::new();
    let mut next = 0;
    for root in 0..count {
        if order[root] != NONE {
            continue;
        }
        path.push((root as u32, 0));
        while let Some((node, index)) = path.last_mut() {
            let at = *node as usize;
            if *index == 0 && order[at] == NONE {
                order[at] = next;
                low[at] = next;
                next += 1;
                open.push(*node);
            }
            if let Some(to) = graph.successor(at, *index as usize) {
                *index += 1;
                if order[to] == NONE {
                    path.push((to as u32, 0));
                } else if components.of[to] == NONE {
                    low[at] = low[at].min(order[to]);
                }
                continue;
            }
            if low[at] == order[at] {
                let component = components.starts.len() as u32 - 1;
                let start = components.nodes.len();
                while let Some(member) = open.pop() {
                    components.of[member as usize] = component;
                    components.nodes.push(member);
                    if member as usize == at {
                        break;
                    }
                }
                if components.nodes.len() - start == count {
                    components.nodes = (0..count as u32).collect();
                }
                components.nodes[start..].sort_unstable();
                components.starts.push(components.nodes.len() as u32);
            }
            path.pop();
            if let Some((before, _)) = path.last() {
                let before = *before as usize;
                low[before] = low[before].min(low[at]);
            }
        }
    }
    components
}
