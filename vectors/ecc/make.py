# Makes channel.json: chunks under the policies of elliptic curves, computed with pyca/cryptography from the text of OPC 10000-6
# §6.8.1, without any code of this project: python3 vectors/ecc/make.py > vectors/ecc/channel.json
import json, struct
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives import hashes, hmac as chmac
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

def hkdf(ikm, salt, length):
    return HKDF(hashes.SHA256(), length, salt, salt).derive(ikm)

def material(secret, label, a, b, length):
    return hkdf(secret, struct.pack("<H", length) + label + a + b, length)

def header(size, channel, token):
    return b"MSGF" + struct.pack("<III", size, channel, token)

CHANNEL, TOKEN, NUMBER, REQUEST, BODY = 7, 3, 1, 2, b"a body in plain words"
content = struct.pack("<II", NUMBER, REQUEST) + BODY

def mac(key, message):
    h = chmac.HMAC(key, hashes.SHA256()); h.update(message); return h.finalize()

def cbc_chunk(signing, key, iv, encrypt):
    if not encrypt:
        message = header(16 + len(content) + 32, CHANNEL, TOKEN) + content
        return message + mac(signing, message)
    used = len(content) + 1 + 32
    padding = -used % 16
    plain = content + bytes([padding]) * (padding + 1)
    head = header(16 + len(plain) + 32, CHANNEL, TOKEN)
    plain += mac(signing, head + plain)
    e = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return head + e.update(plain) + e.finalize()

def aead_chunk(key, iv, encrypt):
    mask = struct.pack("<II", TOKEN, NUMBER - 1)
    nonce = bytes(a ^ b for a, b in zip(iv[:8], mask)) + iv[8:]
    head = header(16 + len(content) + 16, CHANNEL, TOKEN)
    if encrypt:
        return head + ChaCha20Poly1305(key).encrypt(nonce, content, head)
    return head + content + ChaCha20Poly1305(key).encrypt(nonce, b"", head + content)

out = {}
# P-256, private keys of RFC 5903 section 8.1.
c = int("C88F01F510D9AC3F70A292DAA2316DE544E9AAB8AFE84049C62A9C57862D1433", 16)
s = int("C6EF9C5D78AE012A011164ACB397CE2088685D8F06BF9BE0B283AB46476BEE53", 16)
ck, sk = ec.derive_private_key(c, ec.SECP256R1()), ec.derive_private_key(s, ec.SECP256R1())
pub = lambda k: (lambda n: n.x.to_bytes(32, "big") + n.y.to_bytes(32, "big"))(k.public_key().public_numbers())
cp, sp = pub(ck), pub(sk)
z = ck.exchange(ec.ECDH(), sk.public_key())
assert z.hex().upper() == "D6840F6B42F6EDAFD13116E0E12565202FEF8E9ECE7DCE03812464D04B9442DE"
m = material(z, b"opcua-client", cp, sp, 64)
n = material(z, b"opcua-server", sp, cp, 64)
out["p256"] = dict(client=cp.hex(), server=sp.hex(),
  client_encrypt=cbc_chunk(m[:32], m[32:48], m[48:], True).hex(), server_encrypt=cbc_chunk(n[:32], n[32:48], n[48:], True).hex(),
  client_sign=cbc_chunk(material(z, b"opcua-client", cp, sp, 32), None, None, False).hex(),
  server_sign=cbc_chunk(material(z, b"opcua-server", sp, cp, 32), None, None, False).hex())
# X25519, private keys 1, 2, 3.. and 101, 102, 103..
ck = x25519.X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
sk = x25519.X25519PrivateKey.from_private_bytes(bytes(range(101, 133)))
raw = lambda k: k.public_key().public_bytes_raw()
cp, sp = raw(ck), raw(sk)
z = ck.exchange(sk.public_key())
d = {"client": cp.hex(), "server": sp.hex()}
for name, signing in (("profile", 0), ("signing_key", 32)):
    for side, label, a, b in (("client", b"opcua-client", cp, sp), ("server", b"opcua-server", sp, cp)):
        m = material(z, label, a, b, signing + 44)
        iv = m[signing + 32:]
        d[f"{side}_{name}_encrypt"] = aead_chunk(m[signing:signing + 32], iv, True).hex()
        d[f"{side}_{name}_sign"] = aead_chunk(m[:32], iv, False).hex()
out["x25519"] = d
print(json.dumps(out, indent=1))
