//! Messages and executions: the steps of a sequence.

use roxmltree::Node;

use super::super::draft::Line;
use super::super::fields::Fields;
use super::{Reader, attribute, called, led, name, reference, references, sort};
use crate::{Class, Fault};

/// How messages are sent (UML 2.5 section 17.12.22).
const SORTS: [&str; 6] = ["synchCall", "asynchCall", "asynchSignal", "createMessage", "deleteMessage", "reply"];

impl<'a> Reader<'a> {
    /// The step of an execution that a `GaStep` is applied to, done by the component of its lifeline.
    pub(super) fn execution(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
    ) -> Result<Option<Line>, Fault> {
        let id = attribute(fragment, "id").unwrap_or("");
        let behavior = references(fragment, "behavior").into_iter().find_map(|id| self.by_id.get(id.as_str()).copied());
        if let Some(other) = behavior.filter(|it| sort(*it) == "Interaction" && !self.aside) {
            let why = format!(
                "its `behavior` is the interaction `{}`, which would be lost: an `InteractionUse` is laid",
                name(other)
            );
            let what = format!("execution {}", name(fragment));
            return Err(Fault::new(Class::Unknown, what, why).at(self.lines.line(fragment)));
        }
        if !self.applied.is_step(id) {
            return Ok(None);
        }
        let mut words = self.lines.words(fragment, "execution");
        if !self.aside {
            self.named(fragment, &words)?;
            self.spans(fragment, &words)?;
        }
        let on = references(fragment, "covered");
        if on.len() > 1 {
            let why = format!("it is on {} lifelines: who does the work?", on.len());
            return Err(words.fault(Class::Invalid, 0, why));
        }
        let by = on.into_iter().next();
        let lifeline = by.as_ref().and_then(|id| self.by_id.get(id.as_str()));
        let represents = lifeline.and_then(|lifeline| reference(*lifeline, "represents"));
        let Some(by) = represents.and_then(|id| self.component(id)) else {
            let hollow = represents.map_or("", |id| self.hollow(id));
            let why = format!("it is on no lifeline that represents a component, in `{}`{hollow}", name(interaction));
            return Err(words.fault(Class::NoSuchName, 0, why));
        };
        words.put("do", vec![name(fragment).to_owned()], self.lines.line(fragment))?;
        words.put("by", vec![by.to_owned()], self.lines.line(fragment))?;
        self.time(id, &mut words)?;
        self.flow(id, &mut words)?;
        Ok(Some(Line::Do(words)))
    }

    /// A message and its step, at the fragment of its sending.
    pub(super) fn message(
        &mut self,
        fragment: Node<'a, 'a>,
        interaction: Node<'a, 'a>,
    ) -> Result<Option<(Node<'a, 'a>, Line)>, Fault> {
        let id = attribute(fragment, "id").unwrap_or("");
        let of = reference(fragment, "message").unwrap_or("");
        let Some(message) = self.by_id.get(of).copied().filter(|it| it.tag_name().name() == "message") else {
            let why = match of {
                "" => "nothing says to which message it belongs (`message`): say it, or take it out".to_owned(),
                of => format!("it belongs to the message `{of}`, and there is none: take it out"),
            };
            return Err(Fault::new(Class::NoSuchName, name(fragment), why).at(self.lines.line(fragment)));
        };
        if !self.aside {
            self.is_end(fragment, message, interaction)?;
        }
        if reference(message, "sendEvent") != Some(id) {
            return Ok(None);
        }
        self.laid.extend(attribute(message, "id"));
        let end = |key: &str| -> Result<(Node<'a, 'a>, &'a str), Fault> {
            let event = reference(message, key).and_then(|id| self.by_id.get(id));
            let lifeline = event.and_then(|event| references(*event, "covered").into_iter().next());
            let represents = lifeline.as_ref().and_then(|id| self.by_id.get(id.as_str()));
            let represents = represents.and_then(|lifeline| reference(*lifeline, "represents"));
            let part = represents.and_then(|id| Some((*self.by_id.get(id)?, self.component(id)?)));
            part.ok_or_else(|| {
                let hollow = represents.map_or("", |id| self.hollow(id));
                let why = format!(
                    "its `{key}` leads to no lifeline that represents a component, in `{}`{hollow}",
                    name(interaction)
                );
                Fault::new(Class::NoSuchName, format!("message {}", name(message)), why).at(self.lines.line(message))
            })
        };
        let ((sender, from), (receiver, to)) = (end("sendEvent")?, end("receiveEvent")?);
        let mut words = self.lines.words(message, "message");
        let at = self.lines.line(message);
        if !self.aside {
            self.named(message, &words)?;
            self.in_one_place(message, fragment, &words)?;
        }
        if from == to {
            if !self.aside {
                self.stays(message, [sender, receiver], from)?;
            }
            words.put("do", vec![name(message).to_owned()], at)?;
            words.put("by", vec![from.to_owned()], at)?;
            self.time_of_own_call(message, &mut words)?;
            self.flow(of, &mut words)?;
            return Ok(Some((message, Line::Do(words))));
        }
        let connector = self.connector(message, &words)?;
        let Some(over) = connector.or_else(|| self.between(from, to)) else {
            let why = format!("it has no `connector`, and not exactly one joins `{from}` and `{to}`");
            return Err(words.fault(Class::MissingAnnotation, at, why));
        };
        words.put("send", vec![name(message).to_owned()], at)?;
        words.put("over", vec![over], at)?;
        words.put("from", vec![from.to_owned()], at)?;
        words.put("to", vec![to.to_owned()], at)?;
        self.applied.step(of, "bytes", &mut words)?;
        self.flow(of, &mut words)?;
        Ok(Some((message, Line::Send(words))))
    }

    /// An occurrence that is no end of its message, or of one that is drawn elsewhere, would be lost or count there.
    fn is_end(&self, fragment: Node<'a, 'a>, message: Node<'a, 'a>, interaction: Node<'a, 'a>) -> Result<(), Fault> {
        let ends = ["sendEvent", "receiveEvent"].map(|key| reference(message, key));
        let why = if message.parent_element() != Some(interaction) {
            format!("it belongs to the message `{}`, which is of another interaction: draw it there", called(message))
        } else if !ends.contains(&attribute(fragment, "id")) {
            format!(
                "it belongs to the message `{}`, of which it is neither `sendEvent` nor `receiveEvent`: take it out",
                called(message)
            )
        } else {
            return Ok(());
        };
        Err(self.lines.words(fragment, "occurrence").fault(Class::Invalid, 0, why))
    }

    /// The execution that a message starts and that is a step itself, if there is one.
    fn started(&mut self, message: Node<'a, 'a>) -> Option<Node<'a, 'a>> {
        let execution = *self.starts.get(reference(message, "receiveEvent")?)?;
        self.applied.demands(attribute(execution, "id")?).then_some(execution)
    }

    /// The time of what a component does as it calls itself, unless the execution says it; both would count twice.
    fn time_of_own_call(&mut self, message: Node<'a, 'a>, words: &mut Fields) -> Result<(), Fault> {
        let id = attribute(message, "id").unwrap_or("");
        let Some(execution) = self.started(message).filter(|_| !self.aside) else { return self.time(id, words) };
        if !self.applied.is_step(id) {
            return words.put("time", vec!["0".to_owned()], 0);
        }
        self.time(id, words)?;
        if words.clone().seconds("time")? == Some(0.0) {
            return Ok(());
        }
        let why = format!(
            "it has a `hostDemand`, and the execution `{}` that it starts has one: the work would count twice",
            name(execution)
        );
        Err(words.fault(Class::Doubled, 0, why))
    }

    /// A message of a sort that UML has, whose ends are at one lifeline each and both in one operand: one that ends where the way may not
    /// lead would arrive all the same.
    fn in_one_place(&self, message: Node<'a, 'a>, sent: Node<'a, 'a>, words: &Fields) -> Result<(), Fault> {
        let sort = attribute(message, "messageSort").unwrap_or("synchCall");
        if !SORTS.contains(&sort) {
            let why = format!("the `messageSort` `{sort}` is unknown; known: {}", SORTS.join(", "));
            return Err(words.fault(Class::Unknown, 0, why));
        }
        let received = reference(message, "receiveEvent").and_then(|id| self.by_id.get(id).copied());
        for event in [Some(sent), received].into_iter().flatten() {
            let on = references(event, "covered").len();
            if on > 1 {
                let why = format!("its end `{}` is on {on} lifelines: on which?", name(event));
                return Err(words.fault(Class::Invalid, 0, why));
            }
        }
        let of = received.and_then(|it| reference(it, "message"));
        if let Some(other) = of.filter(|id| Some(*id) != attribute(message, "id")) {
            let other = self.by_id.get(other).map_or(other, |it| called(*it));
            let why = format!("its `receiveEvent` belongs to the message `{other}`: where does it arrive?");
            return Err(words.fault(Class::Invalid, 0, why));
        }
        if received.is_some_and(|it| it.parent_element() != sent.parent_element()) {
            let place = |event: Node<'a, 'a>| event.parent_element().map_or("", name);
            let (from, to) = (place(sent), received.map_or("", place));
            let why = format!("it is sent in `{from}` and received in `{to}`: both ends are in one operand");
            return Err(words.fault(Class::Invalid, 0, why));
        }
        if let Some(received) = received.filter(|it| *it < sent) {
            let why = format!(
                "its end `{}` stands before `{}`: it is received before it is sent, put its sending first",
                called(received),
                called(sent)
            );
            return Err(words.fault(Class::Invalid, 0, why));
        }
        Ok(())
    }

    /// A step is known by its name.
    fn named(&self, step: Node<'a, 'a>, words: &Fields) -> Result<(), Fault> {
        let why = "it has no name: what is done, or sent?";
        if name(step).trim().is_empty() { Err(words.fault(Class::Missing, 0, why)) } else { Ok(()) }
    }

    /// The connector that a message names.
    pub(super) fn connector(&self, message: Node<'a, 'a>, words: &Fields) -> Result<Option<String>, Fault> {
        let elsewhere = message.children().filter(|child| child.tag_name().name() == "connector");
        let elsewhere = elsewhere.filter(|child| led(*child).is_none());
        let elsewhere = elsewhere.filter_map(|child| attribute(child, "href").map(str::to_owned));
        let mut named = references(message, "connector").into_iter().chain(elsewhere);
        let Some(id) = named.next() else { return Ok(None) };
        if let Some(other) = named.next() {
            return Err(words.fault(
                Class::Doubled,
                0,
                format!("its `connector` is `{id}` and `{other}`: over which?"),
            ));
        }
        match self.by_id.get(id.as_str()).filter(|it| it.tag_name().name() == "ownedConnector") {
            Some(connector) => Ok(Some(self.called(*connector))),
            None => Err(words.fault(
                Class::NoSuchName,
                0,
                format!("its `connector` is `{id}`, which is no connector of this file"),
            )),
        }
    }

    /// The time of an operation; of another scenario nobody asks for it.
    fn time(&mut self, of: &str, words: &mut Fields) -> Result<(), Fault> {
        self.applied.step(of, "time", words)?;
        if self.aside {
            return words.put("time", vec!["0".to_owned()], 0);
        }
        self.only_holds(of, words)?;
        if words.clone().word("time")?.is_none() {
            let why = "it has no `hostDemand` of a `GaStep`: write 0 if it takes none";
            return Err(words.fault(Class::MissingAnnotation, 0, why));
        }
        Ok(())
    }

    /// Properties by identifier become attributes by name.
    fn flow(&mut self, of: &str, words: &mut Fields) -> Result<(), Fault> {
        for (key, ids, at) in self.applied.flow(of) {
            let mut names = Vec::new();
            for id in ids {
                let had = self.had.contains(id.as_str());
                let Some(property) = self.by_id.get(id.as_str()).filter(|it| had && sort(**it) == "Property") else {
                    return Err(words.fault(
                        Class::NoSuchName,
                        at,
                        format!("`{key}` names `{id}`, which is no attribute of a component"),
                    ));
                };
                names.push(self.called(*property));
            }
            words.put(key, names, at)?;
        }
        Ok(())
    }
}
