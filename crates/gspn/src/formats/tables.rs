//! The states of a net and its generator, as tables for other programs.

use std::io::{self, Write};

use crate::explore::Space;
use crate::net::{Kind, Net};
use crate::{Class, Refusal};

/// Whether `net` is a Markov chain: no transition takes a fixed time.
///
/// # Errors
/// [`Class::Unsupported`], naming the transition that does.
pub fn markovian(net: &Net) -> Result<(), Refusal> {
    let fixed = net.transitions().iter().find(|it| matches!(it.kind, Kind::Deterministic { .. }));
    match fixed {
        None => Ok(()),
        Some(it) => {
            let why = "it takes a fixed time: the net is no Markov chain, and there is no generator of it";
            Err(Refusal::new(Class::Unsupported, &it.name, why))
        }
    }
}

/// Writes CSV: a line for each state with its number from 1, its probability at time 0, the tokens of each place, and the phase of each
/// transition whose time is of phase type (from 1, and 0 while it is not enabled).
///
/// # Errors
/// Those of `out`.
pub fn states(net: &Net, space: &Space, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "state,initial")?;
    for place in net.places() {
        write!(out, ",\"{}\"", quoted(&place.name))?;
    }
    for transition in space.clocks() {
        write!(out, ",\"phase of {}\"", quoted(&net.transitions()[transition].name))?;
    }
    writeln!(out)?;
    let mut initial = vec![0.0; space.chain().len()];
    space.initial().iter().for_each(|(state, probability)| initial[*state as usize] += probability);
    let mut tokens = vec![0; space.places()];
    for (state, probability) in initial.iter().enumerate() {
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        space.load(space.marking_of(state as u32), &mut tokens);
        write!(out, "{},{probability}", state + 1)?;
        tokens.iter().try_for_each(|tokens| write!(out, ",{tokens}"))?;
        #[expect(clippy::cast_possible_truncation, reason = "states have numbers of 32 bits")]
        space.phases(state as u32).iter().try_for_each(|phase| write!(out, ",{phase}"))?;
        writeln!(out)?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    name.replace('"', "\"\"")
}

/// Writes the generator in coordinates of `MatrixMarket`: the rate from row to column, and in the diagonal its row's sum with a minus.
///
/// # Errors
/// Those of `out`.
pub fn generator(space: &Space, out: &mut dyn Write) -> io::Result<()> {
    let chain = space.chain();
    let others = |state: usize| chain.row(state).filter(move |(to, rate)| *to != state && *rate > 0.0);
    let leaving = |state: usize| others(state).map(|(_, rate)| rate).sum::<f64>();
    let count: usize = (0..chain.len()).map(|state| others(state).count() + usize::from(leaving(state) > 0.0)).sum();
    writeln!(out, "%%MatrixMarket matrix coordinate real general\n{0} {0} {count}", chain.len())?;
    for state in 0..chain.len() {
        for (to, rate) in others(state) {
            writeln!(out, "{} {} {rate:e}", state + 1, to + 1)?;
        }
        if leaving(state) > 0.0 {
            writeln!(out, "{0} {0} {1:e}", state + 1, -leaving(state))?;
        }
    }
    Ok(())
}
