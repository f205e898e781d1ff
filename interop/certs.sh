#!/usr/bin/env bash
# Makes the certificates that the peers use: interop/certs.sh DIRECTORY NAME...
# For each NAME: NAME.pem, NAME.der, NAME.key.pem and NAME.key.der, a self-signed application certificate with the URI
# urn:trapkey:interop:NAME, for localhost. What is there already is kept. A self-signed certificate needs keyCertSign (OPC 10000-6
# §6.2.2): Milo insists on it.
set -euo pipefail

directory=$1
shift
mkdir -p "$directory"
cd "$directory"
umask 077

for name in "$@"; do
    [ -s "$name.der" ] && [ -s "$name.key.der" ] && continue
    openssl req -x509 -newkey rsa:2048 -sha256 -days 365 -nodes -batch \
        -subj "/O=Trapkey interoperation/CN=$name" \
        -addext "subjectAltName=URI:urn:trapkey:interop:$name,DNS:localhost,IP:127.0.0.1" \
        -addext "basicConstraints=critical,CA:FALSE" \
        -addext "keyUsage=critical,digitalSignature,nonRepudiation,keyEncipherment,dataEncipherment,keyCertSign" \
        -addext "extendedKeyUsage=serverAuth,clientAuth" \
        -keyout "$name.key.pem" -out "$name.pem" 2>/dev/null
    openssl x509 -in "$name.pem" -outform der -out "$name.der"
    openssl rsa -in "$name.key.pem" -outform der -out "$name.key.der" 2>/dev/null
done
