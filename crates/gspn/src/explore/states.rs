//! States: tangible markings, or with clocks such a marking and the phase of each clock.

use super::explorer::{Explorer, NO_PARENT, Scratch};
use super::vanish::overflow;
use crate::{Budget, Class, Refusal};

impl Explorer {
    /// Says that the markings without a parent were found from `parent`. With clocks, states have parents and markings none.
    pub(super) fn adopt(&mut self, parent: u32) {
        if self.states.is_none() {
            self.parents.resize(self.markings.tangible.len(), parent);
        }
    }

    /// Adds to `scratch.row` the states in which `marking` is reached, from the state in `scratch.state` by firing `fired`.
    pub(super) fn arrive(
        &mut self,
        from: Option<(u32, usize)>,
        marking: u32,
        rate: f64,
        scratch: &mut Scratch,
        budget: &Budget<'_>,
    ) -> Result<(), Refusal> {
        let parent = from.map_or(NO_PARENT, |(state, _)| state);
        let Some(states) = &mut self.states else {
            scratch.row.push((marking, rate));
            return Ok(());
        };
        self.markings.load_tangible(marking, &mut scratch.next);
        let mut entries = vec![(vec![u64::from(marking)], rate)];
        let mut fixed = None;
        for (position, clock) in self.net.clocks.iter().enumerate() {
            let enabled = self.net.fires[clock.transition].enabled(&scratch.next);
            if enabled
                && clock.fixed
                && let Some(other) = fixed.replace(clock.transition)
            {
                let other = self.net.transition(other);
                let why = format!("is enabled at once with `{other}`, and both take a fixed time: at most one may");
                let refusal = Refusal::new(Class::Unsupported, self.net.transition(clock.transition), why);
                let way = self.way_into(from, &scratch.next).unwrap_or_default();
                return Err(refusal.along(way.into_iter().map(|step| self.net.transition(step).to_owned()).collect()));
            }
            let before = if from.is_some() { scratch.state[1 + position] } else { 0 };
            let goes_on = before > 0 && from.is_none_or(|(_, fired)| fired != clock.transition);
            if !enabled || goes_on {
                let phase = if enabled { before } else { 0 };
                entries.iter_mut().for_each(|(entry, _)| entry.push(phase));
                continue;
            }
            let starts = clock.start.iter().enumerate().filter(|(_, part)| **part > 0.0);
            entries = starts
                .flat_map(|(phase, part)| {
                    entries.iter().map(move |(entry, rate)| {
                        let mut entry = entry.clone();
                        entry.push(phase as u64 + 1);
                        (entry, rate * part)
                    })
                })
                .collect();
        }
        for (entry, rate) in entries {
            let (id, new) = states.insert(&entry).map_err(|_| overflow())?;
            if new {
                self.parents.push(parent);
                budget.states(states.len() as u64)?;
            }
            scratch.row.push((id, rate));
        }
        Ok(())
    }

    /// The next phases of the clocks that run in `state`.
    pub(super) fn tick(&mut self, state: u32, scratch: &mut Scratch, budget: &Budget<'_>) -> Result<(), Refusal> {
        let Some(states) = &mut self.states else { return Ok(()) };
        for (index, clock) in self.net.clocks.iter().enumerate() {
            let phase = usize::try_from(scratch.state[1 + index]).ok().and_then(|phase| phase.checked_sub(1));
            let Some((rate, onward)) = phase.and_then(|phase| clock.phases.get(phase)) else { continue };
            if *onward > 0.0 {
                scratch.state[1 + index] += 1;
                let inserted = states.insert(&scratch.state);
                scratch.state[1 + index] -= 1;
                let (id, new) = inserted.map_err(|_| overflow())?;
                if new {
                    self.parents.push(state);
                    budget.states(states.len() as u64)?;
                }
                scratch.row.push((id, rate * onward));
            }
        }
        Ok(())
    }
}
