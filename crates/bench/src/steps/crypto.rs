//! Signatures and encryption with long-lived keys, exchange of keys: by the security policies of OPC UA as our server and client
//! use them.

use aws_lc_rs::agreement::{self, ECDH_P256, UnparsedPublicKey, X25519};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use token::SystemEntropy;
use ua_proto::crypto::{KeyLayout, SecurityPolicyId};

use super::{Bed, Entry, Once, timed_so_often, used};
use crate::Failed;

/// What is signed: as much as a digest has. Longer messages cost `hash` besides.
const SIGNED: [u8; 32] = [7; 32];

/// Key pairs of RSA, and how many of each a process makes: they take a tenth of a second to several, and the next may take ten times as long
/// as the last, so that more would say hardly more and be most of all that is measured.
const PAIRS: [(u32, KeySize, usize); 3] =
    [(2_048, KeySize::Rsa2048, 4), (3_072, KeySize::Rsa3072, 2), (4_096, KeySize::Rsa4096, 1)];

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for bits in [2_048_u32, 3_072, 4_096] {
        let key = format!("rsa-{bits}");
        for (policy, signature, encryption, padding) in [
            (SecurityPolicyId::Basic256Sha256, "", "", 42),
            (SecurityPolicyId::Aes256Sha256RsaPss, "-pss", "-oaep-sha256", 66),
        ] {
            entries.extend(signing(policy, &key, &format!("{key}{signature}")));
            let block = bits / 8 - padding;
            entries.extend(encrypting(policy, &key, &format!("{key}{encryption}"), block as usize));
        }
    }
    for (bits, size, count) in PAIRS {
        entries.push(Entry::with("generate", format!("rsa-{bits}"), 0, move |_, _| {
            timed_so_often(
                count,
                Box::new(move || {
                    used(KeyPair::generate(size).map_err(|_| Failed::from("the keys cannot be made"))?);
                    Ok(())
                }),
            )
        }));
    }
    entries.extend(signing(SecurityPolicyId::EccNistP256, "p256", "ecdsa-p256"));
    entries.extend(signing(SecurityPolicyId::EccCurve25519, "ed25519", "ed25519"));
    for (name, policy, curve) in
        [("ecdh-p256", SecurityPolicyId::EccNistP256, &ECDH_P256), ("x25519", SecurityPolicyId::EccCurve25519, &X25519)]
    {
        entries.push(Entry::new("generate", name, 0, move |_| {
            let mut entropy = SystemEntropy::new();
            Ok(Box::new(move || {
                used(policy.algorithms().agree(&mut entropy, KeyLayout::default()));
                Ok(())
            }))
        }));
        entries.push(Entry::new("agree", name, 0, move |_| agreeing(curve)));
    }
    entries
}

/// One use of a shared secret of two new keys.
fn agreeing(curve: &'static agreement::Algorithm) -> Result<Once, Failed> {
    let failed = |_| Failed::from("the keys cannot be made");
    let own = agreement::PrivateKey::generate(curve).map_err(failed)?;
    let peer = agreement::PrivateKey::generate(curve).map_err(failed)?;
    let peer = peer.compute_public_key().map_err(failed)?.as_ref().to_vec();
    Ok(Box::new(move || {
        let peer = UnparsedPublicKey::new(curve, &peer);
        agreement::agree(&own, peer, Failed::from("no agreement"), |secret| {
            used(secret.first().copied());
            Ok(())
        })
    }))
}

fn signing(policy: SecurityPolicyId, key: &str, name: &str) -> [Entry; 2] {
    let of = key.to_owned();
    let sign = Entry::new("sign", name, SIGNED.len() as u64, move |bed| {
        let key = bed.key(&of)?;
        Ok(Box::new(move || {
            used(policy.algorithms().sign(&key, &SIGNED)?);
            Ok(())
        }))
    });
    let of = key.to_owned();
    let verify = Entry::new("verify", name, SIGNED.len() as u64, move |bed| {
        let signature = policy.algorithms().sign(&bed.key(&of)?, &SIGNED)?;
        let certificate = bed.certificate(&of)?;
        Ok(Box::new(move || Ok(policy.algorithms().verify(certificate.key(), &SIGNED, &signature)?)))
    });
    [sign, verify]
}

/// One block.
fn encrypting(policy: SecurityPolicyId, key: &str, name: &str, block: usize) -> [Entry; 2] {
    let plain = move |bed: &Bed, of: &str| -> Result<_, Failed> { Ok((bed.certificate(of)?, vec![7_u8; block])) };
    let of = key.to_owned();
    let encrypt = Entry::new("encrypt", name, block as u64, move |bed| {
        let (certificate, plain) = plain(bed, &of)?;
        Ok(Box::new(move || {
            used(policy.algorithms().encrypt(certificate.key(), &plain)?);
            Ok(())
        }))
    });
    let of = key.to_owned();
    let decrypt = Entry::new("decrypt", name, block as u64, move |bed| {
        let (certificate, plain) = plain(bed, &of)?;
        let cipher = policy.algorithms().encrypt(certificate.key(), &plain)?;
        let key = bed.key(&of)?;
        Ok(Box::new(move || {
            used(policy.algorithms().decrypt(&key, &cipher)?);
            Ok(())
        }))
    });
    [encrypt, decrypt]
}
