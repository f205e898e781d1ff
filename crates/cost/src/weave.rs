//! Enabling security: annotations become mechanisms of the library, put around the steps that they are about (P4, section 4.2).
//!
//! | annotation | where | what |
//! |---|---|---|
//! | data confidentiality on a connector | each message over it | encryption before, by its sender; decryption after, by its receiver |
//! | data integrity on an attribute | the operation that returns it, or without any each message in which its component sends it; each message that carries it | signature generation after, or before; verification after, by its receiver |
//! | data origin authentication on an attribute | the operation that returns it | signature generation after |
//! | peer entity authentication on a component | each message from or to it | it signs its credentials and the other verifies, before |
//! | certified key on a component | the first step of a request in which it takes part | key generation and certificate, once in the life of the key |
//! | secure channel on a connector | the first step of a request that may use it; each message over it | the protocol's connection and renewals, when they are due; protection before and after |
//! | secure tunnel on a connector | the same; each message over it, those of mechanisms included | the same, around all else |
//!
//! A signature travels with its attribute and makes the message longer, and so do encryption and what a channel puts around a message. What comes
//! before the first step that needs it comes before a whole parallel fragment in which a branch does.

mod first;
mod tunnel;

use serde::Serialize;

use crate::mechanism::{self, Basic, Part, Role};
use crate::model::{Annotation, Model, Operation, Property, Send, Setting, Step, Workload};
use crate::protocol::free;
use first::{First, Sides};
use tunnel::Tunnels;

/// A model in which the mechanisms stand where annotations asked for them. Made by [`weave`] only.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Secured {
    model: Model,
}

impl Secured {
    /// The model, with [`Step::Protect`] in its sequences.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// What was taken of each annotation that may be done in several ways, in words: the first of them. Nothing where there was no choice.
    #[must_use]
    pub fn taken(&self) -> Vec<String> {
        crate::choose::first(&self.model)
    }

    /// The same under another load, of which weaving knows nothing.
    #[must_use]
    pub(crate) const fn of(mut self, workload: Workload) -> Self {
        self.model.workload = workload;
        self
    }
}

/// Puts the mechanisms in. Each annotation is done in the first of its ways.
#[must_use]
pub fn weave(model: &Model) -> Secured {
    let weaver = Weaver::new(model);
    let mut woven = model.clone();
    let mut first = First::new(model);
    for (index, sequence) in woven.sequences.iter_mut().enumerate() {
        let steps = std::mem::take(&mut sequence.steps);
        let steps = if index > 0 {
            weaver.steps(steps)
        } else {
            let mut woven = Vec::new();
            for step in steps {
                woven.extend(first.before(&step));
                woven.extend(weaver.steps(vec![step]));
            }
            woven
        };
        sequence.steps = weaver.tunnels.through(steps);
    }
    Secured { model: woven }
}

/// One annotation and how it is done.
type Asked<'a> = (usize, &'a Annotation, &'a Setting);

struct Weaver<'a> {
    model: &'a Model,
    connectors: Vec<Vec<Asked<'a>>>,
    channels: Vec<Vec<Asked<'a>>>,
    tunnels: Tunnels<'a>,
    attributes: Vec<Vec<Asked<'a>>>,
    components: Vec<Vec<Asked<'a>>>,
    /// Attributes that a step returns.
    returned: Vec<bool>,
}

impl<'a> Weaver<'a> {
    fn new(model: &'a Model) -> Self {
        let mut weaver = Self {
            model,
            connectors: vec![Vec::new(); model.connectors.len()],
            channels: vec![Vec::new(); model.connectors.len()],
            tunnels: Tunnels(vec![Vec::new(); model.connectors.len()]),
            attributes: vec![Vec::new(); model.attributes.len()],
            components: vec![Vec::new(); model.components.len()],
            returned: vec![false; model.attributes.len()],
        };
        model.sequences.iter().for_each(|sequence| weaver.find_returned(&sequence.steps));
        for (index, annotation) in model.annotations.iter().enumerate() {
            let Some(Some(setting)) = annotation.alternatives.first() else { continue };
            let list = match annotation.property {
                Property::DataConfidentiality => &mut weaver.connectors,
                Property::DataIntegrity | Property::DataOriginAuthentication => &mut weaver.attributes,
                Property::PeerEntityAuthentication => &mut weaver.components,
                Property::SecureChannel => &mut weaver.channels,
                Property::SecureTunnel => &mut weaver.tunnels.0,
                Property::CertifiedKey => continue,
            };
            list[annotation.on].push((index, annotation, setting));
        }
        weaver
    }

    fn find_returned(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Operation(Operation { returns: Some(attribute), .. }) => self.returned[*attribute] = true,
                Step::Choice(ways) => ways.iter().for_each(|(_, steps)| self.find_returned(steps)),
                Step::Par(branches) => branches.iter().for_each(|steps| self.find_returned(steps)),
                Step::Operation(_) | Step::Send(_) | Step::Ref { .. } => {}
                Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
            }
        }
    }

    fn steps(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut woven = Vec::with_capacity(steps.len());
        for step in steps {
            match step {
                Step::Operation(operation) => self.operation(operation, &mut woven),
                Step::Send(send) => self.send(send, &mut woven),
                Step::Choice(ways) => {
                    let ways = ways.into_iter().map(|(probability, steps)| (probability, self.steps(steps)));
                    woven.push(Step::Choice(ways.collect()));
                }
                Step::Par(branches) => {
                    woven.push(Step::Par(branches.map(|steps| self.steps(steps))));
                }
                other @ (Step::Ref { .. } | Step::Acquire(_) | Step::Release(_) | Step::Protect(_)) => {
                    woven.push(other)
                }
            }
        }
        woven
    }

    fn operation(&self, mut operation: Operation, woven: &mut Vec<Step>) {
        let by = operation.by;
        let returns = operation.returns;
        operation.critical |= returns.is_some_and(|attribute| !self.attributes[attribute].is_empty());
        woven.push(Step::Operation(operation));
        if let Some(attribute) = returns {
            self.sign(by, attribute, woven);
        }
    }

    /// Signatures of `by` over an attribute.
    fn sign(&self, by: usize, attribute: usize, woven: &mut Vec<Step>) {
        for (index, annotation, setting) in &self.attributes[attribute] {
            if let Some(key) = setting.signature {
                let parts = mechanism::signing(key, setting.hash, self.model.attributes[attribute].bytes);
                let own = Sides { own: by, peer: by, over: None, phase: None };
                woven.push(own.protect(Basic::SignatureGeneration, *index, annotation, setting, parts));
            }
        }
    }

    fn send(&self, mut send: Send, woven: &mut Vec<Step>) {
        let (from, to) = self.model.ends(&send);
        let signatures = send.carries.iter().flat_map(|attribute| &self.attributes[*attribute]);
        let added = signatures.filter_map(|(_, _, setting)| setting.signature).map(mechanism::signature_bytes);
        send.bytes = added.fold(send.bytes, u64::saturating_add);
        let bytes = self.model.size(&send);
        let there = Sides { own: from, peer: to, over: Some((send.over, send.back)), phase: None };
        let back = there.turned();
        for attribute in &send.carries {
            if !self.returned[*attribute] && self.model.attributes[*attribute].of == from {
                self.sign(from, *attribute, woven);
            }
        }

        for (component, sides) in [(from, there), (to, back)] {
            for (index, annotation, setting) in &self.components[component] {
                send.critical = true;
                self.authenticate(sides, *index, annotation, setting, woven);
            }
        }
        let ciphers = self.connectors[send.over].iter().filter_map(|asked| Some((asked, asked.2.cipher.as_ref()?)));
        let ciphers: Vec<_> = ciphers.collect();
        for ((index, annotation, setting), cipher) in &ciphers {
            send.critical = true;
            let parts = mechanism::encryption(cipher, setting, bytes);
            woven.push(there.protect(Basic::Encryption, *index, annotation, setting, parts));
        }
        let carried = send.carries.clone();
        let sealed = ciphers.iter().fold(bytes, |bytes, (_, cipher)| cipher.sealed(bytes));
        send.bytes = send.bytes.saturating_add(sealed.saturating_sub(bytes));
        let after = self.channel(&mut send, sealed, woven);
        woven.push(Step::Send(send));
        woven.extend(after);
        // What was encrypted last is decrypted first.
        for ((index, annotation, setting), cipher) in ciphers.iter().rev() {
            woven.push(back.protect(
                Basic::Decryption,
                *index,
                annotation,
                setting,
                mechanism::decryption(cipher, bytes),
            ));
        }
        for attribute in carried {
            for (index, annotation, setting) in &self.attributes[attribute] {
                let (Property::DataIntegrity, Some(key)) = (annotation.property, setting.signature) else { continue };
                let bytes = self.model.attributes[attribute].bytes;
                let parts = mechanism::verifying(key, setting.hash, bytes, setting.valid);
                woven.push(back.protect(Basic::SignatureVerification, *index, annotation, setting, parts));
            }
        }
    }

    /// What a channel, and a tunnel around it, do with a message before it is sent; given back is what they do after.
    fn channel(&self, send: &mut Send, bytes: u64, woven: &mut Vec<Step>) -> Vec<Step> {
        let (over, mut after) = (send.over, Vec::new());
        let connector = &self.model.connectors[over];
        let from = if send.back { Role::Peer } else { Role::Own };
        let layers = self.channels[over].iter().chain(&self.tunnels.0[over]);
        let layers: Vec<_> = layers.filter_map(|asked| Some((asked, asked.2.agreed.as_ref()?))).collect();
        let mut wire = bytes;
        for (inside, ((index, annotation, setting), agreed)) in (1..=layers.len()).rev().zip(&layers) {
            let (mut before, mut behind) = agreed.protocol.around(from, wire);
            wire = agreed.protocol.wire(from, wire);
            if inside == 1 {
                // What its ends do with a message beside that, as with those of the protocol.
                before.push(free("send", from, "send message", wire));
                behind.insert(0, free("receive", from.other(), "receive message", wire));
            }
            let phase = Some(("messages", false, true));
            let sides = Sides { own: connector.from, peer: connector.to, over: Some((over, false)), phase };
            let put = |parts: Vec<Part>| sides.protect(Basic::Protocol, *index, annotation, setting, parts);
            let some = |parts: &Vec<Part>| !parts.is_empty();
            woven.extend(Some(before).filter(some).map(put));
            // What was put around it last is taken off first.
            after.splice(0..0, Some(behind).filter(some).map(put));
            send.critical = true;
        }
        send.bytes = send.bytes.saturating_add(wire.saturating_sub(bytes));
        after
    }

    /// The component at the own side signs its credentials and the peer verifies, unless it has done so before.
    fn authenticate(
        &self,
        sides: Sides,
        index: usize,
        annotation: &Annotation,
        setting: &Setting,
        woven: &mut Vec<Step>,
    ) {
        let Some(key) = setting.signature else { return };
        let bytes = self.model.components[sides.own].credentials;
        let message = Part::Message {
            name: "credentials",
            from: mechanism::Role::Own,
            bytes: bytes + mechanism::signature_bytes(key),
        };
        let signing = mechanism::signing(key, setting.hash, bytes).into_iter().chain([message]).collect();
        let verifying = mechanism::verifying(key, setting.hash, bytes, setting.valid);
        let generation = sides.protect(Basic::SignatureGeneration, index, annotation, setting, signing);
        let verification = sides.turned().protect(Basic::SignatureVerification, index, annotation, setting, verifying);
        let both = vec![generation, verification];
        woven.extend(match setting.reuse {
            reuse if reuse <= 0.0 => both,
            reuse => vec![Step::Choice(vec![(reuse, Vec::new()), (1.0 - reuse, both)])],
        });
    }
}
