//! Chains with one fault each, and what is said of it.

use std::sync::Arc;

use access_model::{Reason, UnixTime};
use opcua_types::StatusCode;
use proptest::prelude::*;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA512, SanType,
    SerialNumber, date_time_ymd,
};

use super::{
    Certificate, Crl, InvalidCertificate, OwnIdentity, Purpose, TrustList, check_application_uri, check_host, validate,
};
use crate::crypto::{InvalidKey, PrivateKey};
use crate::testing::{application, authority, crl, identity, key, noon, self_signed, signed_by};

const CLIENT: Purpose<'static> = Purpose::Client { application_uri: Some("urn:test:leaf") };
const SERVER: Purpose<'static> =
    Purpose::Server { application_uri: Some("urn:test:leaf"), host: Some("plant.example") };

/// A root, an authority below it and an application, all without fault until a test changes one.
struct Plan {
    root: CertificateParams,
    middle: CertificateParams,
    leaf: CertificateParams,
    /// Serial numbers revoked by root and middle.
    revoked: [Vec<Vec<u8>>; 2],
    /// Whose lists are there, and whose are outdated.
    lists: [bool; 2],
    stale: [bool; 2],
    /// Whether the middle is stored, and whether it is sent along.
    stored: bool,
    sent: bool,
    trust_root: bool,
    trust_leaf: bool,
    /// The key that really signs the leaf.
    leaf_signer: Arc<KeyPair>,
    leaf_key: Arc<KeyPair>,
    now: UnixTime,
    settings: super::TrustSettings,
}

impl Plan {
    fn new() -> Self {
        let mut leaf = application("leaf");
        leaf.serial_number = Some(SerialNumber::from_slice(&[3, 3]));
        let mut middle = authority("middle");
        middle.serial_number = Some(SerialNumber::from_slice(&[2, 2]));
        Self {
            root: authority("root"),
            middle,
            leaf,
            revoked: [Vec::new(), Vec::new()],
            lists: [true, true],
            stale: [false, false],
            stored: true,
            sent: false,
            trust_root: true,
            trust_leaf: false,
            leaf_signer: key(2048, 12),
            leaf_key: key(2048, 1),
            now: noon().unix,
            settings: super::TrustSettings::default(),
        }
    }

    fn validate(&self, purpose: Purpose<'_>) -> Result<(), (Reason, StatusCode)> {
        let (root_key, middle_key) = (key(2048, 11), key(2048, 12));
        let root = self_signed(&self.root, &root_key);
        let middle = signed_by(&self.middle, &middle_key, &self.root, &root_key);
        let mut leaf = signed_by(&self.leaf, &self.leaf_key, &self.middle, &self.leaf_signer);
        if self.sent {
            leaf = Certificate::from_der(&[leaf.der(), middle.der()].concat()).unwrap();
        }
        let mut trust = TrustList { settings: self.settings, ..TrustList::default() };
        // Lists are signed whether or not the certificate allows it: the checker must see to that.
        let root_list = crl(&authority("root"), &root_key, &slices(&self.revoked[0]), self.stale[0]);
        let middle_list = crl(&authority("middle"), &middle_key, &slices(&self.revoked[1]), self.stale[1]);
        let lists = [root_list, middle_list].into_iter().zip(self.lists);
        trust.crls.extend(lists.filter(|(_, there)| *there).map(|(list, _)| list));
        if self.trust_leaf {
            trust.trusted.push(Arc::new(Certificate::from_der(leaf.der()).unwrap()));
        }
        let home = if self.trust_root { &mut trust.trusted } else { &mut trust.issuers };
        home.push(Arc::new(root));
        if self.stored {
            trust.issuers.push(Arc::new(middle));
        }
        validate(&leaf, &trust, purpose, self.now).map_err(|rejection| (rejection.reason, rejection.status))
    }
}

fn slices(serials: &[Vec<u8>]) -> Vec<&[u8]> {
    serials.iter().map(Vec::as_slice).collect()
}

#[test]
fn a_faultless_chain_is_accepted_however_it_is_completed() {
    for purpose in [CLIENT, SERVER, Purpose::User] {
        assert_eq!(Plan::new().validate(purpose), Ok(()), "{purpose:?}");
    }
    let sent = Plan { stored: false, sent: true, ..Plan::new() };
    assert_eq!(sent.validate(CLIENT), Ok(()));
    let leaf_only = Plan { trust_root: false, trust_leaf: true, ..Plan::new() };
    assert_eq!(leaf_only.validate(CLIENT), Ok(()));
}

#[test]
fn each_fault_of_a_chain_has_its_answer() {
    use Reason as R;
    use StatusCode as S;
    type Row = (&'static str, fn(&mut Plan), Purpose<'static>, Reason, StatusCode);
    let rows: [Row; 28] = [
        ("nobody trusts it", |p| p.trust_root = false, CLIENT, R::CertificateUntrusted, S::BadCertificateUntrusted),
        (
            "the middle is missing",
            |p| p.stored = false,
            CLIENT,
            R::CertificateUntrusted,
            S::BadCertificateChainIncomplete,
        ),
        (
            "another key signed it",
            |p| p.leaf_signer = key(2048, 13),
            CLIENT,
            R::CertificateInvalid,
            S::BadCertificateInvalid,
        ),
        (
            "not valid yet",
            |p| p.leaf.not_before = date_time_ymd(2026, 7, 1),
            CLIENT,
            R::CertificateTime,
            S::BadCertificateTimeInvalid,
        ),
        (
            "not valid any more",
            |p| p.leaf.not_after = date_time_ymd(2026, 5, 1),
            CLIENT,
            R::CertificateTime,
            S::BadCertificateTimeInvalid,
        ),
        (
            "the middle is over",
            |p| p.middle.not_after = date_time_ymd(2026, 5, 1),
            CLIENT,
            R::CertificateTime,
            S::BadCertificateIssuerTimeInvalid,
        ),
        (
            "the root is over",
            |p| p.root.not_after = date_time_ymd(2026, 5, 1),
            CLIENT,
            R::CertificateTime,
            S::BadCertificateIssuerTimeInvalid,
        ),
        ("revoked", |p| p.revoked[1].push(vec![3, 3]), CLIENT, R::CertificateRevoked, S::BadCertificateRevoked),
        (
            "revoked, with leading zeros",
            |p| p.revoked[1].push(vec![0, 3, 3]),
            CLIENT,
            R::CertificateRevoked,
            S::BadCertificateRevoked,
        ),
        (
            "revoked by an outdated list",
            |p| {
                p.revoked[1].push(vec![3, 3]);
                p.stale[1] = true;
            },
            CLIENT,
            R::CertificateRevoked,
            S::BadCertificateRevoked,
        ),
        (
            "the middle is revoked",
            |p| p.revoked[0].push(vec![2, 2]),
            CLIENT,
            R::CertificateRevoked,
            S::BadCertificateIssuerRevoked,
        ),
        (
            "no list of the middle",
            |p| p.lists[1] = false,
            CLIENT,
            R::CertificateRevocationUnknown,
            S::BadCertificateRevocationUnknown,
        ),
        (
            "no list of the root",
            |p| p.lists[0] = false,
            CLIENT,
            R::CertificateRevocationUnknown,
            S::BadCertificateIssuerRevocationUnknown,
        ),
        (
            "an outdated list",
            |p| p.stale[1] = true,
            CLIENT,
            R::CertificateRevocationUnknown,
            S::BadCertificateRevocationUnknown,
        ),
        (
            "the middle may not sign lists",
            |p| p.middle.key_usages.retain(|u| *u != KeyUsagePurpose::CrlSign),
            CLIENT,
            R::CertificateRevocationUnknown,
            S::BadCertificateRevocationUnknown,
        ),
        (
            "it may not sign",
            |p| p.leaf.key_usages.retain(|u| *u != KeyUsagePurpose::DigitalSignature),
            CLIENT,
            R::CertificateUse,
            S::BadCertificateUseNotAllowed,
        ),
        (
            "it may not encrypt",
            |p| p.leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature],
            CLIENT,
            R::CertificateUse,
            S::BadCertificateUseNotAllowed,
        ),
        ("it says no usage", |p| p.leaf.key_usages.clear(), CLIENT, R::CertificateUse, S::BadCertificateUseNotAllowed),
        (
            "it is for servers only",
            |p| p.leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth],
            CLIENT,
            R::CertificateUse,
            S::BadCertificateUseNotAllowed,
        ),
        (
            "it is for clients only",
            |p| p.leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            SERVER,
            R::CertificateUse,
            S::BadCertificateUseNotAllowed,
        ),
        (
            "a user's that does not sign",
            |p| p.leaf.key_usages = vec![KeyUsagePurpose::KeyEncipherment],
            Purpose::User,
            R::CertificateUse,
            S::BadCertificateUseNotAllowed,
        ),
        (
            "the middle is no authority",
            |p| p.middle.is_ca = IsCa::NoCa,
            CLIENT,
            R::CertificateUse,
            S::BadCertificateIssuerUseNotAllowed,
        ),
        (
            "the middle may not sign certificates",
            |p| p.middle.key_usages = vec![KeyUsagePurpose::CrlSign],
            CLIENT,
            R::CertificateUse,
            S::BadCertificateIssuerUseNotAllowed,
        ),
        (
            "the path is too long",
            |p| p.root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)),
            CLIENT,
            R::CertificateUse,
            S::BadCertificateIssuerUseNotAllowed,
        ),
        (
            "another ApplicationUri",
            |p| p.leaf.subject_alt_names[0] = uri("urn:test:other"),
            CLIENT,
            R::CertificateUri,
            S::BadCertificateUriInvalid,
        ),
        (
            "two ApplicationUris",
            |p| {
                p.leaf.subject_alt_names.insert(0, uri("urn:test:other"));
            },
            CLIENT,
            R::CertificateUri,
            S::BadCertificateUriInvalid,
        ),
        (
            "another host",
            |p| {
                p.leaf.subject_alt_names.remove(1);
            },
            SERVER,
            R::CertificateHost,
            S::BadCertificateHostNameInvalid,
        ),
        (
            "the key is too short",
            |p| p.settings.min_key_bits = 3072,
            CLIENT,
            R::CertificateKey,
            S::BadCertificatePolicyCheckFailed,
        ),
    ];
    for (name, change, purpose, reason, status) in rows {
        let mut plan = Plan::new();
        change(&mut plan);
        assert_eq!(plan.validate(purpose), Err((reason, status)), "{name}");
    }
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

#[test]
fn a_missing_list_is_accepted_where_configured_but_a_revocation_never() {
    let mut plan = Plan::new();
    plan.lists = [false, false];
    plan.settings.danger_allow_unknown_revocation = true;
    assert_eq!(plan.validate(CLIENT), Ok(()));
    plan.lists[1] = true;
    plan.revoked[1].push(vec![3, 3]);
    assert_eq!(plan.validate(CLIENT), Err((Reason::CertificateRevoked, StatusCode::BadCertificateRevoked)));
}

#[test]
fn validity_includes_its_first_and_last_second() {
    let plan = |now: i64| Plan { now: UnixTime::from_seconds(now), ..Plan::new() };
    let (from, until) = (1_767_225_600, 1_798_761_600);
    let time = Err((Reason::CertificateTime, StatusCode::BadCertificateTimeInvalid));
    assert_eq!(plan(from - 1).validate(CLIENT), time);
    assert_eq!(plan(until + 1).validate(CLIENT), time);
    // Lists are newer than the first second, so that it is not about them.
    let mut first = plan(from);
    first.settings.danger_allow_unknown_revocation = true;
    assert_eq!(first.validate(CLIENT), Ok(()));
    let mut last = plan(until);
    last.settings.danger_allow_unknown_revocation = true;
    assert_eq!(last.validate(CLIENT), Ok(()));
}

#[test]
fn a_self_signed_application_is_trusted_by_itself_only() {
    let trusted = identity("one", 2048, 1);
    let other = identity("two", 2048, 2);
    let trust = TrustList { trusted: vec![trusted.certificate.clone()], ..TrustList::default() };
    let check = |identity: &OwnIdentity| {
        let purpose = Purpose::Client { application_uri: None };
        validate(&identity.certificate, &trust, purpose, noon().unix).map_err(|rejection| rejection.reason)
    };
    assert_eq!(check(&trusted), Ok(()));
    assert_eq!(check(&other), Err(Reason::CertificateUntrusted));
    // A trusted application is no authority for others.
    let mut child = application("child");
    child.subject_alt_names[0] = uri("urn:test:child");
    let forged = signed_by(&child, &key(2048, 3), &application("one"), &key(2048, 1));
    let mut open = TrustList { trusted: vec![trusted.certificate.clone()], ..TrustList::default() };
    open.settings.danger_allow_unknown_revocation = true;
    let purpose = Purpose::Client { application_uri: None };
    let rejected = validate(&forged, &open, purpose, noon().unix).unwrap_err();
    assert_eq!(rejected.status, StatusCode::BadCertificateIssuerUseNotAllowed);
}

#[test]
fn everybody_is_trusted_only_by_the_dangerous_setting_and_never_with_other_faults() {
    let mut plan = Plan::new();
    plan.trust_root = false;
    plan.stored = false;
    plan.settings.danger_trust_everybody = true;
    assert_eq!(plan.validate(CLIENT), Ok(()));
    plan.leaf.not_after = date_time_ymd(2026, 5, 1);
    assert_eq!(plan.validate(CLIENT), Err((Reason::CertificateTime, StatusCode::BadCertificateTimeInvalid)));
}

#[test]
fn keys_of_the_curves_that_policies_use_are_accepted_and_others_for_persons_only() {
    let rows = [
        (&PKCS_ECDSA_P256_SHA256, Ok(())),
        (&PKCS_ED25519, Ok(())),
        (&PKCS_ECDSA_P384_SHA384, Err(Reason::CertificateKey)),
    ];
    for (algorithm, expected) in rows {
        let ec = KeyPair::generate_for(algorithm).unwrap();
        let certificate = Arc::new(self_signed(&application("leaf"), &ec));
        let trust = TrustList { trusted: vec![certificate.clone()], ..TrustList::default() };
        assert_eq!(validate(&certificate, &trust, Purpose::User, noon().unix), Ok(()));
        let judged = validate(&certificate, &trust, CLIENT, noon().unix).map_err(|rejected| rejected.reason);
        assert_eq!(judged, expected, "{algorithm:?}");
        let usage = [KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        for (usages, signs) in [(&usage[..1], true), (&usage[1..], false)] {
            let mut params = application("leaf");
            params.key_usages = usages.to_vec();
            let certificate = Arc::new(self_signed(&params, &ec));
            let trust = TrustList { trusted: vec![certificate.clone()], ..TrustList::default() };
            let judged = validate(&certificate, &trust, CLIENT, noon().unix).map_err(|rejected| rejected.reason);
            let expected = if signs { expected } else { expected.and(Err(Reason::CertificateUse)) };
            assert_eq!(judged, expected, "{algorithm:?} {usages:?}");
        }
    }
}

#[test]
fn longer_hashes_are_accepted() {
    let made = key(2048, 5);
    let strong = KeyPair::from_pkcs8_der_and_sign_algo(&made.serialized_der().into(), &PKCS_RSA_SHA512).unwrap();
    let certificate = Arc::new(self_signed(&application("leaf"), &strong));
    let trust = TrustList { trusted: vec![certificate.clone()], ..TrustList::default() };
    assert_eq!(validate(&certificate, &trust, CLIENT, noon().unix), Ok(()));
}

#[test]
fn a_list_full_of_equal_names_costs_a_bounded_number_of_signatures() {
    let leaf = signed_by(&application("leaf"), &key(2048, 1), &authority("root"), &key(2048, 11));
    let fake = Arc::new(self_signed(&authority("root"), &key(2048, 13)));
    let trust = TrustList { trusted: vec![fake; 17], ..TrustList::default() };
    let rejected = validate(&leaf, &trust, CLIENT, noon().unix).unwrap_err();
    assert_eq!(rejected.status, StatusCode::BadCertificateChainIncomplete);
}

#[test]
fn unknown_critical_and_repeated_extensions_are_refused() {
    let with = |critical: bool, times: usize| {
        let mut params = application("leaf");
        for _ in 0..times {
            let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4, 5], vec![5, 0]);
            extension.set_criticality(critical);
            params.custom_extensions.push(extension);
        }
        Certificate::from_der(params.self_signed(&*key(2048, 1)).unwrap().der()).map(drop)
    };
    assert_eq!(with(false, 1), Ok(()));
    assert_eq!(with(true, 1), Err(InvalidCertificate::Extension));
    assert_eq!(with(false, 2), Err(InvalidCertificate::Extension));
}

#[test]
fn a_certificate_says_what_is_in_it() {
    let one = identity("one", 2048, 1);
    let certificate = &one.certificate;
    assert_eq!(certificate.application_uri(), Some("urn:test:one"));
    assert_eq!(certificate.subject(), "CN=one");
    assert_eq!(certificate.key_bits(), 2048);
    assert_eq!(certificate.hosts().collect::<Vec<_>>(), ["plant.example", "127.0.0.1"]);
    assert_eq!(certificate.not_before(), UnixTime::from_seconds(1_767_225_600));
    assert!(certificate.is_self_issued());
    for (host, named) in [("PLANT.example", true), ("127.0.0.1", true), ("[::1]", false), ("plant.example.com", false)]
    {
        assert_eq!(check_host(certificate, host).is_ok(), named, "{host}");
    }
    assert!(check_application_uri(certificate, "urn:test:one").is_ok());
    assert!(check_application_uri(certificate, "urn:test:ONE").is_err());
}

#[test]
fn chains_have_bounds() {
    let one = identity("one", 2048, 1);
    let der = one.certificate.der();
    let chain = |count: usize| Certificate::from_der(&der.repeat(count)).map(|certificate| certificate.issuers().len());
    assert_eq!(chain(8), Ok(7));
    assert_eq!(chain(9), Err(InvalidCertificate::TooLong));
    assert_eq!(Certificate::from_der(&[]).map(drop), Err(InvalidCertificate::Empty));
    assert_eq!(Certificate::from_der(&vec![0x30; 40_000]).map(drop), Err(InvalidCertificate::TooLong));
    let whole = Certificate::from_der(&der.repeat(2)).unwrap();
    assert_eq!(whole.chain(), der.repeat(2));
    assert_eq!(whole.der(), der);
}

#[test]
fn a_key_belongs_to_its_certificate() {
    let certificate = self_signed(&application("one"), &key(2048, 1));
    let other = PrivateKey::from_der(key(2048, 2).serialized_der()).unwrap();
    assert_eq!(OwnIdentity::new(certificate, other).map(drop), Err(InvalidKey::OtherCertificate));
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
        let (one, two) = (KeyPair::generate_for(algorithm).unwrap(), KeyPair::generate_for(algorithm).unwrap());
        let own = |key: &KeyPair| {
            OwnIdentity::new(self_signed(&application("one"), &one), PrivateKey::from_der(key.serialized_der())?)
        };
        assert_eq!(own(&one).map(drop), Ok(()));
        assert_eq!(own(&two).map(drop), Err(InvalidKey::OtherCertificate));
    }
    let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    assert_eq!(PrivateKey::from_der(other.serialized_der()).map(drop), Err(InvalidKey::Malformed));
}

#[test]
fn keys_and_certificates_are_read_from_pem() {
    let made = key(2048, 1);
    let pem = application("one").self_signed(&*made).unwrap().pem();
    let certificate = Certificate::from_pem(pem.as_bytes()).unwrap();
    let key = PrivateKey::from_pem(made.serialize_pem().as_bytes()).unwrap();
    assert!(OwnIdentity::new(certificate, key).is_ok());
    assert_eq!(PrivateKey::from_pem(pem.as_bytes()).map(drop), Err(InvalidKey::Malformed));
    assert_eq!(Certificate::from_pem(b"nothing").map(drop), Err(InvalidCertificate::Empty));
}

#[test]
fn names_with_odd_letters_do_not_break_the_subject() {
    let mut params = application("one");
    params.distinguished_name.push(DnType::OrganizationName, "Ümlaut, \"quoted\" \u{1f511}");
    assert!(self_signed(&params, &key(2048, 1)).subject().contains("CN=one"));
}

/// RFC 5280 §4.1.1 has two fields outside the signed part; whoever could write them otherwise could give one signature
/// many thumbprints.
#[test]
fn what_is_not_signed_has_one_form() {
    let one = identity("one", 2048, 1);
    let (der, (signed, _, signature)) = (one.certificate.der(), one.certificate.signature());
    let unsigned = (0..4).chain(4 + signed.len()..der.len() - signature.len());
    for (at, flip) in unsigned.flat_map(|at| (1..=u8::MAX).map(move |flip| (at, flip))) {
        let mut changed = der.to_vec();
        changed[at] ^= flip;
        assert!(Certificate::from_der(&changed).is_err(), "byte {at} changed by {flip}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_parsing_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Certificate::from_der(&bytes);
        let _ = Crl::from_der(&bytes);
        let _ = PrivateKey::from_der(&bytes);
        let _ = Certificate::from_pem(&bytes);
    }

    #[test]
    fn a_changed_byte_is_noticed(place in any::<prop::sample::Index>(), flip in 1u8..) {
        let one = identity("one", 2048, 1);
        let mut der = one.certificate.der().to_vec();
        let at = place.index(der.len());
        der[at] ^= flip;
        // Whatever still parses is another certificate, and nobody's.
        if let Ok(changed) = Certificate::from_der(&der) {
            let trust = TrustList { trusted: vec![one.certificate.clone()], ..TrustList::default() };
            let purpose = Purpose::Client { application_uri: None };
            prop_assert!(validate(&changed, &trust, purpose, noon().unix).is_err());
        }
    }

    #[test]
    fn a_changed_byte_in_a_list_is_noticed(place in any::<prop::sample::Index>(), flip in 1u8..) {
        let (root, root_key) = (authority("root"), key(2048, 11));
        let leaf = signed_by(&application("leaf"), &key(2048, 1), &root, &root_key);
        let der = {
            let params = rcgen::CertificateRevocationListParams {
                this_update: date_time_ymd(2026, 2, 1),
                next_update: date_time_ymd(2026, 12, 1),
                crl_number: SerialNumber::from(1u64),
                issuing_distribution_point: None,
                revoked_certs: Vec::new(),
                key_identifier_method: rcgen::KeyIdMethod::Sha256,
            };
            params.signed_by(&rcgen::Issuer::from_params(&root, &*root_key)).unwrap().der().to_vec()
        };
        let mut changed = der.clone();
        let at = place.index(changed.len());
        changed[at] ^= flip;
        let with = |der: &[u8]| {
            let crls = Crl::from_der(der).into_iter().collect();
            let trusted = vec![Arc::new(self_signed(&root, &root_key))];
            let trust = TrustList { trusted, crls, ..TrustList::default() };
            validate(&leaf, &trust, Purpose::Client { application_uri: None }, noon().unix).is_ok()
        };
        prop_assert!(with(&der));
        prop_assert!(!with(&changed), "{}", at);
    }
}
