//! From the written file to a checked [`Plant`]: every reference resolved, every fault with its place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use access_model::{Interlock, Restrictions};

use super::file::{self, File, Name};
use super::words::{self, Covered, InvalidWord, parse_duration};
use super::{
    Application, Equipment, EquipmentPlace, Group, Person, Plant, Role, Scope, ScopeKind, Server, SignIn, Site, Zone,
};
use crate::fault::{FaultList, Faults, Origin, suggest};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn resolve(text: &str, file: File) -> Result<Plant, Faults> {
    let mut check = Check { faults: FaultList::new(Origin::Plant, text) };
    let plant = check.plant(&file);
    check.faults.finish()?;
    Ok(plant)
}

pub(super) struct Check<'a> {
    pub(super) faults: FaultList<'a>,
}

/// The names one kind of thing defines.
pub(super) type Known<'a> = BTreeSet<&'a str>;

impl Check<'_> {
    fn plant(&mut self, file: &File) -> Plant {
        let sites = self.define("site", file.site.iter().map(|site| &site.name));
        let zones = self.define("zone", file.zone.iter().map(|zone| &zone.name));
        let equipment = self.define("equipment", file.equipment.iter().map(|one| &one.name));
        let roles = self.define("role", file.role.iter().map(|role| &role.name));
        let groups = self.define("group", file.group.iter().map(|group| &group.name));
        self.define("person", file.person.iter().map(|person| &person.name));
        self.define("application", file.application.iter().map(|one| &one.uri));
        self.define("server", file.server.iter().map(|server| &server.name));
        self.define("server uri", file.server.iter().map(|server| &server.uri));

        let default_lifetime = file.plant.default_lifetime.as_ref().map_or(HOUR, |text| self.duration(text));
        let longest_lifetime = file.plant.longest_lifetime.as_ref().map_or(12 * HOUR, |text| self.duration(text));
        if let Some(text) = file.plant.default_lifetime.as_ref().filter(|_| default_lifetime > longest_lifetime) {
            self.faults.add(text.span(), "`default_lifetime` is longer than `longest_lifetime`", None);
        }
        self.nobodies(&file.person, &file.server);
        self.equipment_cycles(&file.equipment);
        let role_table = self.roles(&file.role, &roles);
        let group_table = self.groups(&file.group, &roles);
        Plant {
            name: file.plant.name.get_ref().clone(),
            default_lifetime,
            longest_lifetime,
            sites: file.site.iter().map(|s| (own(&s.name), Site { labels: sorted(&s.labels) })).collect(),
            zones: file.zone.iter().map(|zone| (own(&zone.name), self.zone(zone, &sites))).collect(),
            equipment: file.equipment.iter().map(|e| (own(&e.name), self.equipment(e, &zones, &equipment))).collect(),
            persons: file
                .person
                .iter()
                .map(|p| (own(&p.name), self.person(p, &role_table, &group_table, &equipment, &groups)))
                .collect(),
            applications: file
                .application
                .iter()
                .map(|a| (own(&a.uri), self.application(a, &role_table, &equipment)))
                .collect(),
            servers: file.server.iter().map(|s| (own(&s.uri), self.server(s, &equipment, &role_table))).collect(),
            roles: role_table,
            groups: group_table,
        }
    }

    /// Collects the names of one kind; a repeated or unusable one is a fault.
    fn define<'f>(&mut self, kind: &str, names: impl Iterator<Item = &'f Name>) -> Known<'f> {
        let mut known = Known::new();
        for name in names {
            let word = name.get_ref();
            if word.is_empty() || word.len() > 256 || word.chars().any(char::is_control) {
                let message = format!("{kind} `{word}` is empty, longer than 256 bytes or holds a control character");
                self.faults.add(name.span(), message, None);
            }
            if !known.insert(word) {
                self.faults.add(name.span(), format!("{kind} `{word}` is defined twice"), None);
            }
        }
        known
    }

    /// A use of a name; unknown is a fault.
    pub(super) fn known(&mut self, kind: &str, name: &Name, known: &Known<'_>) -> String {
        let word = name.get_ref();
        if !known.contains(word.as_str()) {
            let hint = suggest(word, known.iter().copied());
            self.faults.add(name.span(), format!("no {kind} is called `{word}`"), hint);
        }
        word.clone()
    }

    fn all_known(&mut self, kind: &str, names: &[Name], known: &Known<'_>) -> Vec<String> {
        let set: BTreeSet<String> = names.iter().map(|name| self.known(kind, name, known)).collect();
        set.into_iter().collect()
    }

    pub(super) fn word<T>(&mut self, span: Range<usize>, parsed: Result<T, InvalidWord>) -> Option<T> {
        parsed.map_err(|invalid| self.faults.add(span, invalid.0, None)).ok()
    }

    pub(super) fn duration(&mut self, text: &Name) -> Duration {
        self.word(text.span(), parse_duration(text.get_ref())).unwrap_or(HOUR)
    }

    fn zone(&mut self, zone: &file::Zone, sites: &Known<'_>) -> Zone {
        Zone { site: self.known("site", &zone.site, sites), labels: sorted(&zone.labels) }
    }

    fn equipment(&mut self, one: &file::Equipment, zones: &Known<'_>, equipment: &Known<'_>) -> Equipment {
        let place = match (&one.zone, &one.part_of) {
            (Some(zone), None) => EquipmentPlace::Zone(self.known("zone", zone, zones)),
            (None, Some(whole)) => EquipmentPlace::PartOf(self.known("equipment", whole, equipment)),
            _ => {
                let message = format!("equipment `{}` needs either `zone` or `part_of`", one.name.get_ref());
                self.faults.add(one.name.span(), message, None);
                EquipmentPlace::Zone(String::new())
            }
        };
        Equipment { place, labels: sorted(&one.labels) }
    }

    fn equipment_cycles(&mut self, all: &[file::Equipment]) {
        let whole = |one: &file::Equipment| one.part_of.iter().map(|name| name.get_ref().clone()).collect::<Vec<_>>();
        let edges = all.iter().map(|one| (own(&one.name), whole(one))).collect();
        for one in all {
            if let Some(round) = cycle(one.name.get_ref(), &edges) {
                let message = format!("equipment `{}` is part of itself: {round}", one.name.get_ref());
                self.faults.add(one.name.span(), message, Some("remove one `part_of` of this circle".into()));
            }
        }
    }

    fn roles(&mut self, all: &[file::Role], known: &Known<'_>) -> BTreeMap<String, Role> {
        let edges: BTreeMap<String, Vec<String>> =
            all.iter().map(|role| (own(&role.name), self.all_known("role", &role.includes, known))).collect();
        for role in all {
            if let Some(round) = cycle(role.name.get_ref(), &edges) {
                let message = format!("role `{}` includes itself: {round}", role.name.get_ref());
                self.faults.add(role.name.span(), message, Some("remove one `includes` of this circle".into()));
            }
        }
        let row = |role: &file::Role| {
            let includes = edges.get(role.name.get_ref()).cloned().unwrap_or_default();
            let break_glass = role.break_glass.as_ref().map(|text| self.duration(text));
            (own(&role.name), Role { includes, break_glass })
        };
        all.iter().map(row).collect()
    }

    fn groups(&mut self, all: &[file::Group], roles: &Known<'_>) -> BTreeMap<String, Group> {
        let row =
            |group: &file::Group| (own(&group.name), Group { roles: self.all_known("role", &group.roles, roles) });
        all.iter().map(row).collect()
    }

    /// `anonymous@<server>` is nobody in particular at one of the plant's servers, and never a person.
    fn nobodies(&mut self, persons: &[file::Person], servers: &[file::Server]) {
        for person in persons {
            let name = person.name.get_ref();
            let Some(at) = access_model::nobody_at(name) else { continue };
            let names = || servers.iter().map(|server| server.name.get_ref().as_str());
            if !names().any(|server| *name == format!("anonymous@{server}")) {
                let hint = suggest(at, names());
                self.faults.add(person.name.span(), format!("`{name}` is nobody at a server that there is not"), hint);
            }
        }
    }

    fn person(
        &mut self,
        person: &file::Person,
        roles: &BTreeMap<String, Role>,
        groups: &BTreeMap<String, Group>,
        equipment: &Known<'_>,
        group_names: &Known<'_>,
    ) -> Person {
        let role_names: Known<'_> = roles.keys().map(String::as_str).collect();
        let member_of = self.all_known("group", &person.groups, group_names);
        let mut held: Vec<String> = self.all_known("role", &person.roles, &role_names);
        held.extend(member_of.iter().filter_map(|name| groups.get(name)).flat_map(|group| group.roles.clone()));
        Person {
            roles: closure(held, roles),
            groups: member_of,
            assigned: self.all_known("equipment", &person.assigned, equipment),
            company: person.company.clone(),
            labels: sorted(&person.labels),
        }
    }

    fn application(
        &mut self,
        one: &file::Application,
        roles: &BTreeMap<String, Role>,
        equipment: &Known<'_>,
    ) -> Application {
        let role_names: Known<'_> = roles.keys().map(String::as_str).collect();
        let held = self.all_known("role", &one.roles, &role_names);
        let thumbprint =
            one.thumbprint.as_ref().and_then(|text| self.word(text.span(), words::parse_thumbprint(text.get_ref())));
        Application {
            thumbprint,
            roles: closure(held, roles),
            assigned: self.all_known("equipment", &one.assigned, equipment),
            company: one.company.clone(),
            labels: sorted(&one.labels),
        }
    }

    fn server(&mut self, server: &file::Server, equipment: &Known<'_>, roles: &BTreeMap<String, Role>) -> Server {
        if server.name.get_ref().contains('/') {
            let message = format!("server name `{}` holds a `/`", server.name.get_ref());
            self.faults.add(server.name.span(), message, Some("scopes are called `server/scope` in policies".into()));
        }
        let own_equipment = self.known("equipment", &server.equipment, equipment);
        let names = server.scope.iter().map(|scope| &scope.name).chain(server.method.iter().map(|one| &one.name));
        let defined = self.define("scope", names);
        if defined.contains("public") {
            let hint = Some("`public` is what every session may browse and read; it needs no line".to_owned());
            self.faults.add(server.name.span(), "no scope may be called `public`", hint);
        }
        let scopes: Known<'_> = server.scope.iter().map(|scope| scope.name.get_ref().as_str()).collect();
        let mut all: Vec<Scope> =
            server.scope.iter().map(|scope| self.scope(scope, &own_equipment, equipment, roles)).collect();
        let methods = server.method.iter().map(|one| {
            let method = self.method(one, &own_equipment, (equipment, roles), &scopes);
            let whole = one.scope.as_ref().and_then(|name| all.iter().find(|scope| scope.name == *name.get_ref()));
            let restrictions = method.restrictions.or(whole.and_then(|scope| scope.restrictions));
            let of_scope = whole.and_then(|scope| scope.interlock.two_persons.clone());
            let two_persons = method.interlock.two_persons.clone().or(of_scope);
            Scope { restrictions, interlock: Interlock { two_persons, ..method.interlock }, ..method }
        });
        let methods: Vec<Scope> = methods.collect();
        all.extend(methods);
        let restrictions = self.restrictions(&server.restrictions);
        let sign_in = self.sign_in(&server.sign_in);
        Server { name: own(&server.name), equipment: own_equipment, restrictions, sign_in, scopes: all }
    }

    fn scope(
        &mut self,
        scope: &file::Scope,
        server_equipment: &str,
        equipment: &Known<'_>,
        roles: &BTreeMap<String, Role>,
    ) -> Scope {
        let mut covers = self.nodes(&scope.nodes);
        covers.extend(scope.subtrees.iter().filter_map(|text| self.word(text.span(), words::subtree(text.get_ref()))));
        let interlock = self.scope_interlock(scope, roles);
        Scope {
            name: own(&scope.name),
            kind: ScopeKind::Nodes,
            covers,
            equipment: scope
                .equipment
                .as_ref()
                .map_or(server_equipment.to_owned(), |e| self.known("equipment", e, equipment)),
            labels: sorted(&scope.labels),
            steps: scope.steps.iter().map(own).collect::<BTreeSet<_>>().into_iter().collect(),
            interlock,
            restrictions: scope.restrictions.as_ref().map(|names| self.restrictions(names)),
        }
    }

    fn method(
        &mut self,
        one: &file::Method,
        server_equipment: &str,
        (equipment, roles): (&Known<'_>, &BTreeMap<String, Role>),
        scopes: &Known<'_>,
    ) -> Scope {
        let part_of = one.scope.as_ref().map(|scope| self.known("scope of this server", scope, scopes));
        Scope {
            name: own(&one.name),
            kind: ScopeKind::Method { part_of },
            covers: self.nodes(&one.nodes),
            equipment: one
                .equipment
                .as_ref()
                .map_or(server_equipment.to_owned(), |e| self.known("equipment", e, equipment)),
            labels: sorted(&one.labels),
            steps: one.steps.iter().map(own).collect::<BTreeSet<_>>().into_iter().collect(),
            interlock: self.method_interlock(one, roles),
            restrictions: one.restrictions.as_ref().map(|names| self.restrictions(names)),
        }
    }

    fn nodes(&mut self, nodes: &[Name]) -> Vec<Covered> {
        nodes
            .iter()
            .filter_map(|text| self.word(text.span(), words::node_id(text.get_ref())))
            .map(Covered::Node)
            .collect()
    }

    fn sign_in(&mut self, names: &[Name]) -> Vec<SignIn> {
        let mut all = Vec::new();
        for name in names {
            match SignIn::ALL.into_iter().find(|way| way.name() == name.get_ref()) {
                Some(way) => all.push(way),
                None => {
                    let hint = suggest(name.get_ref(), SignIn::ALL.iter().map(|way| way.name()));
                    self.faults.add(name.span(), format!("nobody signs in by `{}`", name.get_ref()), hint);
                }
            }
        }
        all
    }

    fn restrictions(&mut self, names: &[Name]) -> Restrictions {
        let mut all = Restrictions::NONE;
        for name in names {
            match Restrictions::from_name(name.get_ref()) {
                Some(one) => all |= one,
                None => {
                    let hint = suggest(name.get_ref(), Restrictions::names());
                    self.faults.add(name.span(), format!("`{}` is no restriction", name.get_ref()), hint);
                }
            }
        }
        if let Some(name) = names.first().filter(|_| all == Restrictions::BROWSE) {
            let hint = Some("`browse` extends `signing`, `encryption` or `session` to browsing".to_owned());
            self.faults.add(name.span(), "`browse` alone restricts nothing", hint);
        }
        all
    }
}

fn own(name: &Name) -> String {
    name.get_ref().clone()
}

fn sorted(words: &[String]) -> Vec<String> {
    words.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// These roles and all that they include, sorted.
fn closure(held: Vec<String>, roles: &BTreeMap<String, Role>) -> Vec<String> {
    let mut all = BTreeSet::new();
    let mut open = held;
    while let Some(role) = open.pop() {
        if let Some(row) = roles.get(&role) {
            open.extend(row.includes.iter().filter(|included| !all.contains(*included)).cloned());
        }
        all.insert(role);
    }
    all.into_iter().collect()
}

/// The way from `start` back to itself, if there is one: `a → b → a`.
fn cycle(start: &str, edges: &BTreeMap<String, Vec<String>>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![vec![start.to_owned()]];
    while let Some(way) = open.pop() {
        for next in way.last().and_then(|at| edges.get(at)).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == start {
                return Some(longer.join(" → "));
            }
            if seen.insert(next.clone()) {
                open.push(longer);
            }
        }
    }
    None
}
