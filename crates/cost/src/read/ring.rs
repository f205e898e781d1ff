//! A way that leads back to where it began.

/// Over what leads where, from one back to itself: both ends included, and the first that is found.
pub(super) fn ring(leads: &[Vec<usize>]) -> Option<Vec<usize>> {
    // 0 new, 1 on the way, 2 done; an explicit stack, as chains may be long.
    let mut marks = vec![0_u8; leads.len()];
    for start in 0..leads.len() {
        let mut way = vec![(start, 0)];
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            marks[at] = marks[at].max(1);
            let Some(to) = leads[at].get(*next).copied() else {
                marks[at] = 2;
                way.pop();
                continue;
            };
            *next += 1;
            if marks[to] == 1 {
                return Some(way.iter().map(|(node, _)| *node).skip_while(|node| *node != to).chain([to]).collect());
            }
            if marks[to] == 0 {
                way.push((to, 0));
            }
        }
    }
    None
}
