//! What comes before a request touches a connector or a component for the first time: keys and certificates, connections, renewals.

use std::collections::{BTreeMap, BTreeSet};

use super::Asked;
use crate::mechanism::{self, Basic, Role};
use crate::model::{Agreed, Annotation, Model, Property, Protect, Setting, Step};
use crate::protocol::{Party, Phase, beside};

/// Something that an annotation of ours is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// Its channel.
    Connector(usize),
    /// Its tunnel.
    Tunnel(usize),
    Component(usize),
}

/// Annotations whose steps were not put in yet.
pub(super) struct First<'a> {
    model: &'a Model,
    waiting: BTreeMap<Target, Vec<Asked<'a>>>,
    /// For each sequence the targets that it touches, through others too.
    touched: Vec<BTreeSet<Target>>,
}

impl<'a> First<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        let mut waiting: BTreeMap<Target, Vec<Asked<'a>>> = BTreeMap::new();
        for (index, annotation) in model.annotations.iter().enumerate() {
            let Some(Some(setting)) = annotation.alternatives.first() else { continue };
            let target = match annotation.property {
                Property::SecureChannel => Target::Connector(annotation.on),
                Property::SecureTunnel => Target::Tunnel(annotation.on),
                Property::CertifiedKey => Target::Component(annotation.on),
                _ => continue,
            };
            waiting.entry(target).or_default().push((index, annotation, setting));
        }
        let mut first = Self { model, waiting, touched: Vec::new() };
        if !first.waiting.is_empty() {
            first.touched = first.sequences();
        }
        first
    }

    /// The steps that come before `step` of the first sequence.
    pub(super) fn before(&mut self, step: &Step) -> Vec<Step> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut targets = BTreeSet::new();
        self.touch(step, &mut targets, &mut |first, sequence, targets| {
            targets.extend(&first.touched[sequence]);
        });
        let ways: Vec<Target> = targets.iter().flat_map(|target| self.ways(*target)).collect();
        targets.extend(ways);
        let mut steps = Vec::new();
        // Keys first, for connections need them; then tunnels, through which other connections go.
        for target in targets.iter().rev() {
            for asked in self.waiting.remove(target).unwrap_or_default() {
                match target {
                    Target::Component(_) => self.certify(asked, &mut steps),
                    Target::Connector(_) | Target::Tunnel(_) => self.agree(asked, &mut steps),
                }
            }
        }
        steps
    }

    /// Tunnels of the connectors over which others are asked for certificates and tokens.
    fn ways(&self, target: Target) -> Vec<Target> {
        let asked = self.waiting.get(&target).into_iter().flatten();
        let ways = asked.flat_map(|(_, _, setting)| setting.authorities());
        ways.map(Target::Tunnel).filter(|tunnel| self.waiting.contains_key(tunnel)).collect()
    }

    /// What each sequence touches. Chains of references may be long, so the way stands in a list.
    fn sequences(&self) -> Vec<BTreeSet<Target>> {
        let sequences = &self.model.sequences;
        let mut touched: Vec<Option<BTreeSet<Target>>> = vec![None; sequences.len()];
        for start in 0..sequences.len() {
            let mut way = vec![start];
            while let Some(at) = way.last().copied() {
                let mut missing = Vec::new();
                let mut targets = BTreeSet::new();
                for step in &sequences[at].steps {
                    self.touch(step, &mut targets, &mut |_, sequence, targets| match &touched[sequence] {
                        Some(done) => targets.extend(done),
                        None => missing.push(sequence),
                    });
                }
                if missing.is_empty() {
                    touched[at] = Some(targets);
                    way.pop();
                } else {
                    way.extend(missing);
                }
            }
        }
        touched.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn touch(
        &self,
        step: &Step,
        targets: &mut BTreeSet<Target>,
        refer: &mut dyn FnMut(&Self, usize, &mut BTreeSet<Target>),
    ) {
        let mut take = |target: Target| {
            if self.waiting.contains_key(&target) {
                targets.insert(target);
            }
        };
        match step {
            Step::Operation(it) => take(Target::Component(it.by)),
            Step::Send(it) => {
                let (from, to) = self.model.ends(it);
                let targets = [Target::Connector(it.over), Target::Tunnel(it.over)].into_iter();
                targets.chain([Target::Component(from), Target::Component(to)]).for_each(take);
            }
            Step::Ref { sequence, .. } => refer(self, *sequence, targets),
            Step::Choice(ways) => {
                ways.iter().flat_map(|(_, steps)| steps).for_each(|step| self.touch(step, targets, refer));
            }
            // Its branches have one connection, and one key.
            Step::Par(branches) => branches.iter().flatten().for_each(|step| self.touch(step, targets, refer)),
            Step::Acquire(_) | Step::Release(_) | Step::Protect(_) => {}
        }
    }

    /// A key pair is made and certified, once in its life.
    fn certify(&self, (index, annotation, setting): Asked<'_>, steps: &mut Vec<Step>) {
        let (Some(key), Some(certified)) = (setting.signature, setting.certified) else { return };
        let connector = &self.model.connectors[certified.through];
        let back = connector.from != annotation.on;
        let sides = Sides {
            own: annotation.on,
            peer: if back { connector.from } else { connector.to },
            over: Some((certified.through, back)),
            phase: None,
        };
        let made = mechanism::key_generation(key);
        let signed = mechanism::certificate(key, certified.issuer.unwrap_or(key), setting.hash, setting.trusted);
        let both = vec![
            sides.protect(Basic::KeyGeneration, index, annotation, setting, made),
            sides.protect(Basic::Certificate, index, annotation, setting, signed),
        ];
        due(1.0 / certified.life, both, steps);
    }

    /// A connection is opened, and one is closed, unless it is there; its keys and tokens are renewed when that is due.
    fn agree(&self, (index, annotation, setting): Asked<'_>, steps: &mut Vec<Step>) {
        let Some(agreed) = &setting.agreed else { return };
        let of = |phases: Vec<Phase>| {
            let each = phases.into_iter().map(|phase| self.phase(phase, agreed, index, annotation, setting));
            each.collect::<Vec<_>>()
        };
        let protocol = &agreed.protocol;
        if let Some(life) = agreed.life {
            due(1.0 / life, of(protocol.once()), steps);
        }
        // What is there goes on while something new is made, and nobody needs what is left. Each connection that is made was, or will be, ended.
        let opened = protocol.connect().into_iter().chain(beside(protocol.disconnect()));
        due(1.0 - setting.reuse, of(opened.collect()), steps);
        due(agreed.renewed, of(beside(protocol.renew())), steps);
        due(agreed.refreshed, of(beside(protocol.refresh())), steps);
    }

    fn phase(&self, phase: Phase, agreed: &Agreed, index: usize, annotation: &Annotation, setting: &Setting) -> Step {
        let channel = annotation.on;
        let at = |party: Party| {
            let (connector, far) = match party {
                Party::Client => (Some(channel), false),
                Party::Server => (Some(channel), true),
                Party::Authority => (agreed.login, true),
            };
            // Whoever reads models asks for `login` where there is an authority.
            let connector = &self.model.connectors[connector.unwrap_or(channel)];
            if far { connector.to } else { connector.from }
        };
        let authority = phase.ends.0 == Party::Authority || phase.ends.1 == Party::Authority;
        let over = if authority { agreed.login.unwrap_or(channel) } else { channel };
        let back = phase.ends.0 != Party::Client;
        let sides = Sides {
            own: at(phase.ends.0),
            peer: at(phase.ends.1),
            over: Some((over, back)),
            phase: Some((
                phase.name,
                phase.party(Role::Own) == Party::Server,
                phase.party(Role::Peer) == Party::Server,
            )),
        };
        sides.protect(Basic::Protocol, index, annotation, setting, phase.parts)
    }
}

/// Steps that are done with a probability.
fn due(probability: f64, done: Vec<Step>, steps: &mut Vec<Step>) {
    if done.is_empty() || probability <= 0.0 {
        return;
    }
    if probability >= 1.0 {
        steps.extend(done);
    } else {
        steps.push(Step::Choice(vec![(probability, done), (1.0 - probability, Vec::new())]));
    }
}

/// Who runs a mechanism, with whom, over what; of a protocol its phase, and which of the two is the server.
#[derive(Clone, Copy)]
pub(super) struct Sides {
    pub(super) own: usize,
    pub(super) peer: usize,
    pub(super) over: Option<(usize, bool)>,
    pub(super) phase: Option<(&'static str, bool, bool)>,
}

impl Sides {
    pub(super) fn turned(self) -> Self {
        let phase = self.phase.map(|(name, own, peer)| (name, peer, own));
        let over = self.over.map(|(connector, back)| (connector, !back));
        Self { own: self.peer, peer: self.own, over, phase }
    }

    pub(super) fn protect(
        self,
        mechanism: Basic,
        index: usize,
        annotation: &Annotation,
        setting: &Setting,
        parts: Vec<mechanism::Part>,
    ) -> Step {
        // An engine has the keys of who runs the mechanism, of both ends where these agree on a key; of a protocol those of the server.
        let both = annotation.property == Property::DataConfidentiality;
        let (own, peer) = self.phase.map_or((true, both), |(_, own, peer)| (own, peer));
        Step::Protect(Protect {
            mechanism,
            property: annotation.property,
            annotation: index,
            own: self.own,
            peer: self.peer,
            over: self.over,
            engine: setting.engine.filter(|_| own),
            peer_engine: setting.engine.filter(|_| peer),
            phase: self.phase.map(|(name, ..)| name),
            parts,
        })
    }
}
