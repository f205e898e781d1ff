//! From where to where an execution goes (UML 2.5 section 17.2.4): its `start` and `finish` have to agree with the place of its fragment, at
//! which its work is laid.

use roxmltree::Node;

use super::super::fields::Fields;
use super::{Reader, called, is_occurrence, reference, references};
use crate::{Class, Fault};

impl<'a> Reader<'a> {
    /// Refuses an execution that begins or ends elsewhere than it stands: in another operand, on another lifeline, or before or after.
    pub(super) fn spans(&self, execution: Node<'a, 'a>, words: &Fields) -> Result<(), Fault> {
        let refused = |class, why: String| Err(words.fault(class, 0, why));
        let on = references(execution, "covered");
        for key in ["start", "finish"] {
            let Some(id) = reference(execution, key) else { continue };
            let Some(end) = self.by_id.get(id).copied().filter(|it| is_occurrence(*it)) else {
                return refused(
                    Class::NoSuchName,
                    format!("its `{key}` is `{id}`, which is no occurrence of this file"),
                );
            };
            let end_on = references(end, "covered");
            if !on.is_empty() && !end_on.is_empty() && !end_on.iter().any(|it| on.contains(it)) {
                let why = format!("its `{key}`, `{}`, is on another lifeline: who does the work?", called(end));
                return refused(Class::Invalid, why);
            }
            let is_inside = match key {
                "start" => end.parent() == execution.parent(),
                // Where it ends, ways may have parted.
                _ => execution.parent().is_some_and(|around| end.ancestors().any(|it| it == around)),
            };
            if !is_inside {
                let why = format!(
                    "its `{key}`, `{}`, is not where it stands: its work would be done as often as what it stands in, put it there",
                    called(end)
                );
                return refused(Class::Invalid, why);
            }
            let (there, arrives) = self.done(end);
            let is_of_message = reference(end, "message").is_some();
            if key == "start" && is_of_message && there > execution {
                let why = format!("it stands before `{}`, which starts it: put it behind that", called(end));
                return refused(Class::Invalid, why);
            }
            if key == "finish" && is_of_message && !arrives && end < execution {
                let why = format!("it stands behind `{}`, which is sent when it ends: put it before that", called(end));
                return refused(Class::Invalid, why);
            }
        }
        Ok(())
    }
}
