#!/usr/bin/env bash
# Makes the certificates that the peers use: interop/certs.sh DIRECTORY NAME...
# For each NAME: NAME.pem, NAME.der, NAME.key.pem and NAME.key.der, a self-signed application certificate with the URI
# urn:trapkey:interop:NAME, for localhost. What is there already is kept. A self-signed certificate needs keyCertSign (OPC 10000-6
# §6.2.2): Milo insists on it. Beside each are NAME-p256 and NAME-ed25519: the same application's with a key on that curve.
set -euo pipefail

directory=$1
shift
mkdir -p "$directory"
cd "$directory"
umask 077

make() { # NAME URI-NAME USAGE KEY-OPTIONS...
    local name=$1 application=$2 usage=$3
    shift 3
    [ -s "$name.der" ] && [ -s "$name.key.der" ] && return
    openssl req -x509 "$@" -days 365 -nodes -batch \
        -subj "/O=Trapkey interoperation/CN=$name" \
        -addext "subjectAltName=URI:urn:trapkey:interop:$application,DNS:localhost,IP:127.0.0.1" \
        -addext "basicConstraints=critical,CA:FALSE" \
        -addext "keyUsage=critical,$usage,keyCertSign" \
        -addext "extendedKeyUsage=serverAuth,clientAuth" \
        -keyout "$name.key.pem" -out "$name.pem" 2>/dev/null
    openssl x509 -in "$name.pem" -outform der -out "$name.der"
    openssl pkey -in "$name.key.pem" -outform der -out "$name.key.der" 2>/dev/null
}

for name in "$@"; do
    signs=digitalSignature,nonRepudiation
    make "$name" "$name" "$signs,keyEncipherment,dataEncipherment" -newkey rsa:2048 -sha256
    make "$name-p256" "$name" "$signs" -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -sha256
    make "$name-ed25519" "$name" "$signs" -newkey ed25519
done
