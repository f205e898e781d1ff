//! Broken files are refused whole, with the place and what to do.

use access_model::{Epoch, MapDigest};
use pdp::{Cases, Snapshot, Sources};

const PLANT: &str = r#"[plant]
name = "p"

[[site]]
name = "s"

[[zone]]
name = "z"
site = "s"

[[equipment]]
name = "e"
zone = "z"

[[role]]
name = "operator"

[[person]]
name = "olga"
roles = ["operator"]

[[server]]
name = "m"
uri = "urn:m"
equipment = "e"

[[server.scope]]
name = "a"
subtrees = ["/Objects/1:A"]
"#;
const POLICY: &str =
    "@id(\"one\")\npermit(principal in Role::\"operator\", action in Action::\"view\", resource in Zone::\"z\");\n";

fn load(plant: &str, policies: &str) -> Result<Snapshot, String> {
    let sources = Sources { plant, policies, workflow: None };
    Snapshot::load(sources, &|_| MapDigest([0; 16]), Epoch(1)).map_err(|faults| faults.to_string())
}

#[test]
fn the_base_is_whole() {
    load(PLANT, POLICY).unwrap();
}

#[test]
fn broken_plants_say_where() {
    for (rule, from, to, want) in [
        ("syntax", "[[zone]]", "[[zone]", "plant line 7, column"),
        ("unknown key", "site = \"s\"", "sight = \"s\"", "plant line 9, column 1: unknown field `sight`"),
        ("key hint", "site = \"s\"", "sit = \"s\"", "did you mean `site`?"),
        ("missing key", "site = \"s\"", "", "missing field `site`"),
        (
            "unknown site",
            "site = \"s\"",
            "site = \"t\"",
            "plant line 9, column 8: no site is called `t` (help: did you mean `s`?)",
        ),
        (
            "unknown role",
            "roles = [\"operator\"]",
            "roles = [\"operater\"]",
            "line 20, column 10: no role is called `operater` (help: did you mean `operator`?)",
        ),
        ("twice", "[[person]]", "[[role]]\nname = \"operator\"\n[[person]]", "role `operator` is defined twice"),
        ("itself", "zone = \"z\"", "part_of = \"e\"", "equipment `e` is part of itself: e → e"),
        ("two places", "zone = \"z\"", "zone = \"z\"\npart_of = \"e\"", "needs either `zone` or `part_of`"),
        (
            "role cycle",
            "name = \"operator\"",
            "name = \"operator\"\nincludes = [\"x\"]\n[[role]]\nname = \"x\"\nincludes = [\"operator\"]",
            "role `operator` includes itself: operator → x → operator",
        ),
        ("public", "name = \"a\"", "name = \"public\"", "no scope may be called `public`"),
        ("slash", "name = \"m\"", "name = \"m/n\"", "holds a `/`"),
        ("path", "/Objects/1:A", "//", "no browse path"),
        ("node", "subtrees = [\"/Objects/1:A\"]", "nodes = [\"Speed\"]", "`Speed` is no NodeId"),
        ("range", "subtrees = [\"/Objects/1:A\"]", "range = { low = 2.0, high = 1.0 }", "2 to 1 is no range"),
        ("nan", "subtrees = [\"/Objects/1:A\"]", "range = { low = nan, high = 1.0 }", "is no range"),
        (
            "restriction",
            "name = \"a\"",
            "name = \"a\"\nrestrictions = [\"encription\"]",
            "plant line 29, column 17: `encription` is no restriction (help: did you mean `encryption`?)",
        ),
        ("only browse", "equipment = \"e\"", "equipment = \"e\"\nrestrictions = [\"browse\"]", "restricts nothing"),
        ("duration", "name = \"p\"", "name = \"p\"\ndefault_lifetime = \"soon\"", "`soon` is no duration"),
        ("lifetimes", "name = \"p\"", "name = \"p\"\ndefault_lifetime = \"13h\"", "longer than `longest_lifetime`"),
        (
            "steps without workflow",
            "name = \"a\"",
            "name = \"a\"\nsteps = [\"heat\"]",
            "scope `a` names step `heat`, which the workflow does not have",
        ),
        ("control character", "name = \"olga\"", "name = \"ol\\u0007ga\"", "holds a control character"),
    ] {
        assert!(PLANT.contains(from), "{rule}");
        let said = load(&PLANT.replacen(from, to, 1), POLICY).expect_err(rule);
        assert!(said.contains(want), "{rule}: {said}");
    }
}

#[test]
fn broken_policies_say_where() {
    for (rule, text, want) in [
        ("syntax", "permit(principal, action, resource)\n  when { principal.labels };;", "policies line 2"),
        ("unclosed", "permit(principal, action, resource", "policies line 1"),
        (
            "unknown role",
            "@id(\"x\")\npermit(principal in Role::\"operater\", action, resource);",
            "policies line 2, column 21: no role is called `operater` (help: did you mean `operator`?)",
        ),
        (
            "unknown scope",
            "permit(principal, action, resource == Scope::\"m/b\");",
            "no scope is called `m/b` (help: did you mean `m/a`?)",
        ),
        ("unknown action", "permit(principal, action == Action::\"reed\", resource);", "reed"),
        ("unknown type", "permit(principal is Robot, action, resource);", "Robot"),
        ("unknown attribute", "permit(principal, action, resource) when { resource.colour == \"red\" };", "colour"),
        (
            "wrong type",
            "permit(principal, action, resource) when { resource.labels == 7 };",
            "policies line 1, column 44",
        ),
        (
            "optional fact",
            "permit(principal, action, resource) when { context.application.labels.contains(\"x\") };",
            "application",
        ),
        ("template", "permit(principal == ?principal, action, resource);", "is a template"),
        (
            "same id",
            "@id(\"a\") permit(principal, action, resource);\n@id(\"a\") forbid(principal, action, resource);",
            "policies line 2, column 1: policy `a` has the id of the policy in line 1",
        ),
        (
            "annotation",
            "@lifetme(\"1m\")\npermit(principal, action, resource);",
            "policies line 1, column 1: policy `policy0` has an unknown annotation `@lifetme` (help: did you mean `@lifetime`?)",
        ),
        ("lifetime", "@lifetime(\"long\")\npermit(principal, action, resource);", "`long` is no duration"),
    ] {
        let said = load(PLANT, text).expect_err(rule);
        assert!(said.contains(want), "{rule}: {said}");
    }
}

#[test]
fn broken_cases_say_where() {
    let snapshot = load(PLANT, POLICY).unwrap();
    let case = "[[case]]\nname = \"c\"\nperson = \"olga\"\naction = \"read\"\nserver = \"m\"\nscope = \"a\"\nexpect = \"permit\"\n";
    assert!(Cases::parse(case, &snapshot).is_ok());
    for (rule, from, to, want) in [
        (
            "action",
            "\"read\"",
            "\"reed\"",
            "cases line 4, column 10: no action is called `reed` (help: did you mean `read`?)",
        ),
        ("server", "\"m\"", "\"n\"", "no server is called `n`"),
        ("scope", "\"a\"", "\"b\"", "server `m` has no scope `b`"),
        ("effect", "\"permit\"", "\"allow\"", "write `permit` or `forbid`"),
        ("key", "person", "persn", "unknown field `persn`"),
        ("step", "expect", "steps = [\"heat\"]\nexpect", "no step is called `heat`"),
        ("policy", "expect", "policy = \"two\"\nexpect", "no policy has the id `two`"),
    ] {
        let said = Cases::parse(&case.replacen(from, to, 1), &snapshot).expect_err(rule).to_string();
        assert!(said.contains(want), "{rule}: {said}");
    }
}

#[test]
fn all_faults_come_at_once() {
    let broken =
        PLANT.replacen("site = \"s\"", "site = \"t\"", 1).replacen("roles = [\"operator\"]", "roles = [\"x\"]", 1);
    assert_eq!(load(&broken, POLICY).unwrap_err().lines().count(), 2);
}
