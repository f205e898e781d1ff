//! How long certificates are (RFC 5280 section 4.1, in DER). What depends on keys is counted from the standards: the subject's public
//! key, the signature, the two names of its algorithm. The rest is [`REST`], for names and extensions differ little.

use crate::algorithm::Key;

/// Version, serial number, names, validity and extensions of a certificate as Trapkey makes it: names of six letters, an
/// ApplicationUri of fifteen, one host name, one address.
const REST: u64 = 276;

/// Bytes of a certificate for such a key, whose issuer has a key of the same kind: itself, if nobody else.
#[must_use]
pub fn certificate_bytes(key: Key) -> u64 {
    issued_bytes(key, key)
}

/// Bytes of a certificate for `key` that an `issuer` with another kind of key has signed.
pub(crate) fn issued_bytes(key: Key, issuer: Key) -> u64 {
    der(to_be_signed(key, issuer) + algorithm(issuer) + bit_string(signature_value(issuer)))
}

/// Bytes of it that are signed.
pub(crate) fn to_be_signed(key: Key, issuer: Key) -> u64 {
    der(REST + public_key(key) + algorithm(issuer))
}

/// Bytes of a signature as bytes alone: what OPC UA sends (OPC 10000-6 section 6.7.2), of ECDSA both numbers side by side.
#[must_use]
pub(crate) fn signature_bytes(key: Key) -> u64 {
    match key {
        Key::Rsa(bits) | Key::Hmac(bits) => u64::from(bits / 8),
        Key::Ecdsa(bits) => 2 * u64::from(bits.div_ceil(8)),
        Key::Ed25519 => 64,
        Key::Ed448 => 114,
    }
}

/// Bytes of a signature as certificates, TLS and IKE have it: of ECDSA a sequence of both numbers (RFC 5480, RFC 3279 section 2.2.3),
/// the mean of lengths that differ by a byte or two, for a number has a byte more where its first bit is set.
pub(crate) fn signature_value(key: Key) -> u64 {
    match key {
        // The sum of two numbers, each with a byte more in every other case.
        Key::Ecdsa(bits) => der(2 * (2 + u64::from(bits / 8)) + 1),
        other => signature_bytes(other),
    }
}

/// Bytes of the name of a signature's algorithm: PKCS #1 with SHA-2 (RFC 4055 section 5), ECDSA with SHA-2 (RFC 5758 section 3.2), of
/// Edwards curves (RFC 8410 section 3).
pub(crate) const fn algorithm(key: Key) -> u64 {
    match key {
        Key::Rsa(_) => 15,
        Key::Ecdsa(_) => 12,
        Key::Ed25519 | Key::Ed448 => 7,
        Key::Hmac(_) => 0,
    }
}

/// Bytes of SubjectPublicKeyInfo: RFC 3279 section 2.3.1 with 65537, RFC 5480 section 2, RFC 8410 section 4. A shared key is in none.
pub(crate) fn public_key(key: Key) -> u64 {
    let (named, point) = match key {
        Key::Rsa(bits) => (15, der(der(u64::from(bits / 8) + 1) + 5)),
        // The curve's name: P-256 is one of X9.62, the others of SECG.
        Key::Ecdsa(256) => (21, 65),
        Key::Ecdsa(bits) => (18, 1 + 2 * u64::from(bits.div_ceil(8))),
        Key::Ed25519 => (7, 32),
        Key::Ed448 => (7, 57),
        Key::Hmac(_) => return 0,
    };
    der(named + bit_string(point))
}

/// A value with its tag and length (X.690 section 8.1.3).
const fn der(content: u64) -> u64 {
    content
        + match content {
            0..128 => 2,
            128..256 => 3,
            256..65_536 => 4,
            _ => 5,
        }
}

/// A bit string says first how many bits of its last byte do not count.
const fn bit_string(content: u64) -> u64 {
    der(content + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As long as what `openssl pkey -pubout -outform der` writes.
    #[test]
    fn public_keys_are_as_long_as_in_der() {
        for (key, bytes) in [
            (Key::Rsa(1024), 162),
            (Key::Rsa(2048), 294),
            (Key::Rsa(3072), 422),
            (Key::Rsa(4096), 550),
            (Key::Ecdsa(256), 91),
            (Key::Ecdsa(384), 120),
            (Key::Ecdsa(521), 158),
            (Key::Ed25519, 44),
            (Key::Ed448, 69),
        ] {
            assert_eq!(public_key(key), bytes, "{key}");
        }
    }

    #[test]
    fn signatures_of_curves_are_longer_in_der() {
        for (key, raw, value) in [
            (Key::Ecdsa(256), 64, 71),
            (Key::Ecdsa(384), 96, 103),
            (Key::Ecdsa(521), 132, 138),
            (Key::Ed25519, 64, 64),
            (Key::Rsa(3072), 384, 384),
        ] {
            assert_eq!((signature_bytes(key), signature_value(key)), (raw, value), "{key}");
        }
    }

    /// The sizes that the reference tells.
    #[test]
    fn certificates_grow_with_their_keys() {
        let keys = [Key::Rsa(2048), Key::Rsa(3072), Key::Rsa(4096), Key::Ecdsa(256), Key::Ed25519];
        assert_eq!(keys.map(certificate_bytes), [869, 1125, 1381, 473, 409]);
    }

    /// Signed by another kind of key, a certificate differs by the signature and both names of its algorithm.
    #[test]
    fn an_issuer_counts_with_its_signature() {
        let own = certificate_bytes(Key::Ecdsa(256));
        let issued = issued_bytes(Key::Ecdsa(256), Key::Rsa(4096));
        assert_eq!(issued - own, 2 * 3 + (517 - 74));
        assert!(issued_bytes(Key::Rsa(4096), Key::Ecdsa(256)) > issued);
    }
}
