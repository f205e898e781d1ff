//! Where requests are served as they came: where they wait for what is waited for nowhere else.

use gspn::net::Kind;

use crate::net::Laid;

/// Of each place of the net, whether those who wait there are served as they came.
///
/// Which of those who wait in several places came first, their net does not say: each of them is as likely to be next.
pub(super) fn in_turn(laid: &Laid) -> Vec<bool> {
    let places = laid.net.places().len();
    let mut resource = vec![false; places];
    laid.resources.iter().for_each(|place| resource[*place] = true);
    let mut ways = vec![Vec::new(); places];
    for it in laid.net.transitions() {
        let Some(from) = it.inputs.iter().map(|arc| arc.place).find(|place| !resource[*place]) else { continue };
        let of: Vec<usize> = it.inputs.iter().map(|arc| arc.place).filter(|place| resource[*place]).collect();
        ways[from].push((matches!(it.kind, Kind::Immediate { .. }), of));
    }
    // Of each resource the places in which it is waited for. Where there is another way nobody waits.
    let mut wanted = vec![Vec::new(); places];
    for (place, ways) in ways.iter().enumerate() {
        if let [(_, of)] = ways.as_slice() {
            of.iter().for_each(|resource| wanted[*resource].push(place));
        }
    }
    let alone = |place: usize, of: &[usize]| of.iter().all(|resource| wanted[*resource] == [place]);
    let in_turn = |place: usize| match ways[place].as_slice() {
        [(true, of)] => !of.is_empty() && alone(place, of),
        _ => false,
    };
    (0..places).map(|place| laid.queue == Some(place) || in_turn(place)).collect()
}
