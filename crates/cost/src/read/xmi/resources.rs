//! Logical resources: pools of MARTE's `PaLogicalResource`, which steps with `GaAcqStep` and `GaRelStep` acquire and release.

use roxmltree::Node;

use super::super::draft::{Draft, Line};
use super::super::fields::Fields;
use super::{Reader, attribute, name};
use crate::{Class, Fault};

/// A stereotype of a step, the member that names the resource, and our key for what is done with it.
const HOLDS: [(&str, &str, &str); 2] = [("GaAcqStep", "acqRes", "acquire"), ("GaRelStep", "relRes", "release")];

impl<'a> Reader<'a> {
    /// What is a `PaLogicalResource`, by its name; `poolSize` (or `resMult`, which every resource has) are its units.
    pub(super) fn pools(&mut self, draft: &mut Draft) -> Result<(), Fault> {
        for base in self.applied.logical_resources() {
            let Some(element) = self.by_id.get(base.as_str()).copied() else { continue };
            let mut words = self.lines.words(element, "pool");
            self.applied.pool(&base, &mut words)?;
            draft.pools.push((name(element).to_owned(), words));
        }
        Ok(())
    }

    /// Whether an element is nothing but a resource that steps hold.
    pub(super) fn is_pool(&self, element: Node<'_, '_>) -> bool {
        attribute(element, "id").is_some_and(|id| self.applied.is_pool(id))
    }

    /// A step with what it acquires before and releases after it. What a message acquires it does where it arrives.
    pub(super) fn with_resources(&mut self, element: Node<'a, 'a>, step: Line) -> Result<Vec<Line>, Fault> {
        let id = attribute(element, "id").unwrap_or("");
        let arrives = matches!(step, Line::Send(_));
        if self.aside {
            return Ok(vec![step]);
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (stereotype, member, key) in HOLDS {
            for (of, mut words, at) in self.applied.holds(id, stereotype, member)? {
                let base = self.applied.resource(&of).and_then(|base| self.by_id.get(base));
                let Some(pool) = base.copied() else {
                    let why = format!("`{member}` is `{of}`, which is no `PaLogicalResource` of this file");
                    return Err(words.fault(Class::NoSuchName, at, why));
                };
                words.put(key, vec![name(pool).to_owned()], at)?;
                match key {
                    "acquire" if arrives => after.push(Line::Acquire(words)),
                    "acquire" => before.push(Line::Acquire(words)),
                    _ => after.push(Line::Release(words)),
                }
            }
        }
        before.push(step);
        before.append(&mut after);
        Ok(before)
    }

    /// A step that acquires or releases takes no time of its own where none is said.
    pub(super) fn only_holds(&mut self, of: &str, words: &mut Fields) -> Result<(), Fault> {
        let holds = HOLDS.iter().any(|(stereotype, ..)| self.applied.has(of, stereotype));
        if holds && words.clone().word("time")?.is_none() { words.put("time", vec!["0".to_owned()], 0) } else { Ok(()) }
    }
}
