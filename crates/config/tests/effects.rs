//! Every key of the configuration does something that a test sees: a new key without one fails here.
//!
//! The keys are not listed by hand: a table is asked for a key that nobody has, and names those that it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use config::{At, Invalid, Overrides, read};

const NOBODYS: &str = "zzzzzzzzzzzz";
/// Deeper than any table of the configuration.
const DEEPEST: usize = 6;

/// A key, and the test that fails when it is read and then forgotten: `crate folder::name`. What ends in `.*` stands for the
/// table below it. The keys that a guard shares with a server are the same code, and are looked up there.
const EFFECTS: &[(&str, &str)] = &[
    ("plant.file", "cli::faults_in_policies_and_plants_are_shown_in_their_place"),
    ("plant.policies", "cli::faults_in_policies_and_plants_are_shown_in_their_place"),
    ("plant.workflow", "cli::rights_come_and_go_with_the_step_and_everything_is_in_the_ledger"),
    ("store.database", "cli::a_backup_goes_out_and_in"),
    ("store.sync", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.ledger", "cli::a_sound_ledger_verifies_with_the_key_of_the_configuration_and_a_changed_one_does_not"),
    ("audit.key", "cli::a_ledger_of_another_key_or_none_is_told"),
    ("audit.sync", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.rotate_mib", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.on_failure", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.denials_per_second", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.denial_kinds", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.checkpoint_records", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.checkpoint_interval", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("audit.queue_records", "cli::every_key_of_the_audit_and_the_store_is_the_setting_that_it_names"),
    ("log.filter", "cli::what_is_logged_is_what_the_filter_says"),
    ("client.pki", "cli::a_disabled_person_is_out_at_once_and_every_change_is_in_the_ledger"),
    ("client.authority", "cli::a_disabled_person_is_out_at_once_and_every_change_is_in_the_ledger"),
    ("client.authorities", "cli::a_password_goes_to_pinned_authorities_only"),
    ("discovery.register_with", "cli::servers_are_found_at_the_discovery_server_that_they_are_to_register_with"),
    ("operation.listen", "cli::each_part_has_its_line_and_each_figure_moves_when_the_thing_happens"),
    (
        "operation.danger_beyond_loopback",
        "cli::a_guard_tells_of_its_server_and_a_listener_beyond_loopback_must_be_wanted",
    ),
    ("operation.drain", "cli::the_second_signal_ends_at_once_and_a_time_that_is_over_too"),
    ("authority.issuer", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.https", "cli::rights_come_and_go_with_the_step_and_everything_is_in_the_ledger"),
    ("authority.opcua", "cli::rights_come_and_go_with_the_step_and_everything_is_in_the_ledger"),
    ("authority.url", "cli::the_authority_keeps_to_its_keys"),
    ("authority.names", "cli::the_authority_keeps_to_its_keys"),
    ("authority.pki", "cli::https_shows_a_renewed_certificate_while_it_runs"),
    ("authority.missing_crl", "cli::certificates_are_looked_at_as_strictly_as_is_configured"),
    ("authority.min_key_bits", "cli::certificates_are_looked_at_as_strictly_as_is_configured"),
    ("authority.max_key_bits", "cli::certificates_are_looked_at_as_strictly_as_is_configured"),
    ("authority.policies", "cli::the_authority_keeps_to_its_keys"),
    ("authority.identities", "cli::the_authority_keeps_to_its_keys"),
    ("authority.keys", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.key_overlap", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.register", "cli::a_disabled_person_is_out_at_once_and_every_change_is_in_the_ledger"),
    ("authority.algorithm", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.request_access_token", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.allow_padding", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.refresh_lifetime", "cli::the_authority_keeps_to_its_keys"),
    ("authority.refresh_line", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.admin_roles", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.evaluator_roles", "cli::the_authority_keeps_to_its_keys"),
    ("authority.heartbeat", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.pending_lifetime", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.pending", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.password_jobs", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.connections", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.connections_per_address", "cli::the_authority_keeps_to_its_keys"),
    ("authority.patience", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.paces.*", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.identity_issuer.*", "cli::every_key_of_the_authority_is_the_setting_that_it_names"),
    ("authority.limits.*", "cli::every_key_is_the_bound_that_it_names"),
    ("server.name", "cli::rights_come_and_go_with_the_step_and_everything_is_in_the_ledger"),
    (
        "server.simulate",
        "cli::three_programs_are_one_plant_and_a_killed_server_learns_what_was_revoked_before_it_serves",
    ),
    ("server.node_sets", "cli::a_simulated_server_has_the_nodes_of_its_node_sets"),
    ("server.listen", "cli::rights_come_and_go_with_the_step_and_everything_is_in_the_ledger"),
    ("server.url", "cli::clients_are_told_the_host_they_dialled_and_no_address_has_every_place"),
    ("server.names", "cli::clients_are_told_the_host_they_dialled_and_no_address_has_every_place"),
    ("server.pki", "cli::keys_trust_and_policies_are_followed_while_it_runs"),
    ("server.authority", "cli::every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names"),
    ("server.authority_opcua", "cli::every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names"),
    ("server.fail_mode", "cli::every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names"),
    ("server.last_known_good_for", "cli::every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names"),
    ("server.contact_timeout", "cli::every_key_of_a_servers_tie_to_its_authority_is_the_setting_that_it_names"),
    ("server.reverse_connect", "cli::a_server_that_calls_its_guard_is_guarded_and_never_dialled"),
    ("server.discovery_server", "cli::servers_are_found_at_the_discovery_server_that_they_are_to_register_with"),
    ("server.missing_crl", "cli::a_certificate_of_unknown_standing_comes_in_only_where_that_is_configured"),
    ("server.min_key_bits", "cli::certificates_are_looked_at_as_strictly_as_is_configured"),
    ("server.max_key_bits", "cli::certificates_are_looked_at_as_strictly_as_is_configured"),
    ("server.modes", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.policies", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.danger_without_security", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.identities", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.token_secrets", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.expiry_grace", "cli::a_session_ends_with_its_token_where_it_has_no_grace"),
    ("server.limits.*", "cli::every_key_is_the_bound_that_it_names"),
    ("server.user.name", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.user.password", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.user.certificate", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.local.role", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.local.rights", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.local.scopes", "cli::persons_of_its_own_come_in_while_there_is_no_authority"),
    ("server.anonymous.rights", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.anonymous.scopes", "cli::policies_identities_and_forms_are_those_that_are_configured"),
    ("server.issuer.name", "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation"),
    ("server.issuer.jwks", "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation"),
    ("server.issuer.jwks_url", "cli::an_issuer_that_publishes_its_keys_lets_people_in_by_roles_inside_of_other_claims"),
    ("server.issuer.ca", "cli::an_issuer_that_publishes_its_keys_lets_people_in_by_roles_inside_of_other_claims"),
    (
        "server.issuer.audience",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    (
        "server.issuer.confirmation",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    (
        "server.issuer.roles_claim",
        "cli::an_issuer_that_publishes_its_keys_lets_people_in_by_roles_inside_of_other_claims",
    ),
    (
        "server.issuer.rights.role",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    (
        "server.issuer.rights.group",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    (
        "server.issuer.rights.rights",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    (
        "server.issuer.rights.scopes",
        "cli::tokens_of_other_issuers_are_taken_as_configured_and_survive_the_authoritys_rotation",
    ),
    ("zone.name", "cli::zones_of_the_configuration_hold_for_the_scopes_that_stand_in_them"),
    ("zone.fail_mode", "cli::zones_of_the_configuration_hold_for_the_scopes_that_stand_in_them"),
    ("zone.last_known_good_for", "cli::zones_of_the_configuration_hold_for_the_scopes_that_stand_in_them"),
    ("guard.name", "cli::a_stock_client_signs_in_at_the_guard_and_its_rights_come_and_go_with_the_step"),
    ("guard.danger_passwords_without_security", "cli::clients_without_security_are_anonymous_here_and_nothing_else"),
    ("guard.upstream.url", "cli::a_stock_client_signs_in_at_the_guard_and_its_rights_come_and_go_with_the_step"),
    ("guard.mode", "cli::what_was_learned_goes_on_when_it_is_locked_and_the_rest_is_denied"),
    ("guard.pool", "cli::sessions_share_the_one_that_a_small_server_has_if_that_is_configured"),
    (
        "guard.standby.listen",
        "cli::a_standby_takes_over_from_a_guard_that_is_killed_and_gives_way_to_none_that_comes_back",
    ),
    (
        "guard.standby.peer",
        "cli::a_standby_takes_over_from_a_guard_that_is_killed_and_gives_way_to_none_that_comes_back",
    ),
    ("guard.standby.yield_after", "cli::a_guard_that_does_not_reach_its_server_leaves_its_turn_to_the_one_that_does"),
    (
        "guard.standby.turn",
        "cli::a_standby_takes_over_from_a_guard_that_is_killed_and_gives_way_to_none_that_comes_back",
    ),
    ("guard.upstream.listen", "cli::a_server_that_calls_its_guard_is_guarded_and_never_dialled"),
    ("guard.upstream.server_uri", "cli::a_server_that_calls_its_guard_is_guarded_and_never_dialled"),
    ("guard.upstream.certificate", "cli::the_upstream_certificate_is_pinned"),
    ("guard.upstream.security", "cli::a_guard_is_upstream_who_and_how_the_configuration_says"),
    ("guard.upstream.user.*", "cli::a_guard_is_upstream_who_and_how_the_configuration_says"),
    ("guard.upstream.role.*", "cli::a_guard_is_upstream_who_and_how_the_configuration_says"),
];

/// Keys that are read and do nothing yet. Whoever makes one do something moves it above; no key is added here.
const OWED: &[&str] = &[];

/// The keys of the table at the end of this way. None when no table stands there.
fn keys(way: &[String]) -> Option<Vec<String>> {
    // Whether one table stands there or a list of them is found out by trying; a wrong kind says nothing of keys.
    (0..1_usize << way.len()).find_map(|lists| {
        let mut text = format!("{NOBODYS} = 1");
        for (depth, key) in way.iter().enumerate().rev() {
            let list = lists & (1 << depth) != 0;
            text = if list { format!("{key} = [{{ {text} }}]") } else { format!("{key} = {{ {text} }}") };
        }
        let invalid = read(&format!("{text}\n"), &Overrides::default()).err()?;
        known(&invalid)
    })
}

fn known(invalid: &Invalid) -> Option<Vec<String>> {
    assert!(matches!(invalid.at, At::Text(_)));
    if invalid.message != format!("there is no key `{NOBODYS}`") {
        return None;
    }
    let help = invalid.help.as_deref()?.strip_prefix("known here: ")?;
    Some(help.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Every key that holds no table, by its way with dots.
fn walk(way: &[String], all: &mut BTreeSet<String>) {
    assert!(way.len() < DEEPEST, "{way:?}");
    for key in keys(way).unwrap_or_else(|| panic!("no table at {way:?}")) {
        let below = [way, &[key]].concat();
        match keys(&below) {
            Some(_) => walk(&below, all),
            None => drop(all.insert(below.join("."))),
        }
    }
}

fn all() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    walk(&[], &mut all);
    all
}

/// The test of a key: its own, its table's, or for a guard the server's.
fn effect(key: &str) -> Option<&'static str> {
    let own = |key: &str| {
        let fits = |listed: &str| listed == key || listed.strip_suffix('*').is_some_and(|table| key.starts_with(table));
        EFFECTS.iter().find(|(listed, _)| fits(listed)).map(|(_, test)| *test)
    };
    own(key).or_else(|| own(&format!("server.{}", key.strip_prefix("guard.")?)))
}

#[test]
fn the_walk_finds_every_table() {
    let all = all();
    for key in
        ["plant.file", "authority.paces.arrivals.burst", "server.issuer.rights.role", "guard.upstream.role.user.key"]
    {
        assert!(all.contains(key), "{key} is not among {all:?}");
    }
    let limits = all.iter().filter(|key| key.starts_with("server.limits.")).count();
    assert_eq!(limits, config::Limits::keys().len());
}

#[test]
fn every_key_has_a_test_of_its_effect() {
    let all = all();
    let (missing, owed): (Vec<&String>, Vec<&String>) =
        all.iter().filter(|key| effect(key).is_none()).partition(|key| !OWED.contains(&key.as_str()));
    assert_eq!(owed, OWED, "what does something is not owed");
    assert!(missing.is_empty(), "write a test of what each does, and name it in EFFECTS: {missing:#?}");
    for (listed, _) in EFFECTS {
        let table = listed.strip_suffix('*');
        let known = |key: &&String| table.map_or(key.as_str() == *listed, |table| key.starts_with(table));
        assert!(all.iter().any(|key| known(&key)), "`{listed}` is no key any more");
    }
}

/// Names of tests, by crate folder.
fn tests() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = BTreeMap::new();
    for folder in std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let mut text = String::new();
        let mut waiting: Vec<PathBuf> = vec![folder.clone()];
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("effects.rs") {
                text += &std::fs::read_to_string(&path).unwrap();
            }
        }
        all.insert(folder.file_name().unwrap().to_str().unwrap().to_owned(), text);
    }
    all
}

#[test]
fn every_test_that_is_named_exists() {
    let tests = tests();
    let named: BTreeSet<&str> = EFFECTS.iter().map(|(_, test)| *test).collect();
    for test in named {
        let (folder, name) = test.split_once("::").unwrap();
        let text = tests.get(folder).unwrap_or_else(|| panic!("there is no crate in `{folder}`"));
        let at = text.find(&format!("fn {name}()")).unwrap_or_else(|| panic!("there is no test `{test}`"));
        let before = text[..at].lines().rev().take(4).collect::<Vec<_>>();
        assert!(before.iter().any(|line| line.contains("test")), "`{test}` is no test");
    }
}
