#!/usr/bin/env bash
# Installs what the build and the peers need and the machine lacks: a C compiler, CMake, OpenSSL's headers, a JDK with Maven, Node,
# Python and strace. Does nothing where everything is there; needs root and apt only where something is missing.
set -euo pipefail

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }

need cc gcc
need make make
need cmake cmake
need git git
need openssl openssl
need python3 python3
need node nodejs
need npm npm
need javac default-jdk-headless
need mvn maven
need strace strace
[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
echo "installing: ${missing[*]}"
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "cannot install here; please install: ${missing[*]}" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
