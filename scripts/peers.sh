#!/usr/bin/env bash
# Installs other people's OPC UA stacks, and stormpy and Sirio, peers of the solver of nets, into ./peers (git-ignored) and puts one starter
# per program into peers/bin: see interop/README.md.
# What is there and of the wanted version is kept, so a second run takes a second. A stack that cannot be had prints SKIPPED and is left
# out; with TRAPKEY_PEERS=required that is a failure.
#
#   scripts/peers.sh [asyncua] [node-opcua] [milo] [open62541] [stormpy] [sirio]      all of them without arguments
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
peers=${TRAPKEY_PEERS_DIR:-$root/peers}
interop=$root/interop
open62541_sys=0.6.6
mkdir -p "$peers/bin"

# A stack is up to date when its stamp holds the checksum of everything it is made from, and of the place that its starters name.
stamp() { { echo "$root" && cat "$@" "$root/scripts/peers.sh"; } | sha256sum | cut -d' ' -f1; }
fresh() { [ "$(cat "$peers/$1/.stamp" 2>/dev/null)" = "$2" ]; }

starter() { # NAME COMMAND...: a program in peers/bin
    local file=$peers/bin/$1
    shift
    { echo '#!/bin/sh'; echo "exec $* \"\$@\""; } >"$file"
    chmod +x "$file"
}

asyncua() {
    local sum
    sum=$(stamp "$interop"/asyncua/*)
    fresh asyncua "$sum" && return
    rm -rf "$peers/asyncua"
    python3 -m venv "$peers/asyncua"
    "$peers/asyncua/bin/pip" install --quiet --disable-pip-version-check -r "$interop/asyncua/requirements.txt"
    starter asyncua-client "'$peers/asyncua/bin/python'" "'$interop/asyncua/client.py'"
    starter asyncua-server "'$peers/asyncua/bin/python'" "'$interop/asyncua/server.py'"
    starter asyncua-decoder "'$peers/asyncua/bin/python'" "'$interop/asyncua/decoder.py'"
    echo "$sum" >"$peers/asyncua/.stamp"
}

# From wheels alone, which ask for glibc 2.34 and a Python that one was made for: nothing is built from source here.
stormpy() {
    local sum
    sum=$(stamp "$interop"/stormpy/*)
    fresh stormpy "$sum" && return
    rm -rf "$peers/stormpy"
    python3 -m venv "$peers/stormpy"
    "$peers/stormpy/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r "$interop/stormpy/requirements.txt"
    starter stormpy-steady "'$peers/stormpy/bin/python'" "'$interop/stormpy/steady.py'"
    echo "$sum" >"$peers/stormpy/.stamp"
}

# What Maven brings has to be what it was when this was written.
sirio() {
    local sum
    sum=$(stamp "$interop"/sirio/pom.xml "$interop"/sirio/checksums "$interop"/sirio/src/*)
    fresh sirio "$sum" && return
    rm -rf "$peers/sirio"
    mkdir -p "$peers/sirio"
    mvn --quiet --batch-mode -Dstyle.color=never --file "$interop/sirio/pom.xml" dependency:copy-dependencies -DoutputDirectory="$peers/sirio/lib"
    (cd "$peers/sirio/lib" && sha256sum -- *.jar | cmp - "$interop/sirio/checksums")
    javac -nowarn -Xlint:none -d "$peers/sirio/classes" -cp "$peers/sirio/lib/*" "$interop"/sirio/src/*.java
    starter sirio-steady java -Xmx6g -cp "'$peers/sirio/classes:$peers/sirio/lib/*'" Steady
    echo "$sum" >"$peers/sirio/.stamp"
}

node-opcua() {
    local sum
    sum=$(stamp "$interop"/node-opcua/*)
    fresh node-opcua "$sum" && return
    mkdir -p "$peers/node-opcua"
    cp "$interop"/node-opcua/package.json "$interop"/node-opcua/package-lock.json "$peers/node-opcua/"
    npm ci --prefix "$peers/node-opcua" --silent --no-audit --no-fund --ignore-scripts
    for program in client server; do
        starter "node-opcua-$program" env "NODE_PATH='$peers/node-opcua/node_modules'" node "'$interop/node-opcua/$program.js'"
    done
    echo "$sum" >"$peers/node-opcua/.stamp"
}

milo() {
    local sum
    sum=$(stamp "$interop"/milo/pom.xml "$interop"/milo/src/*)
    fresh milo "$sum" && return
    rm -rf "$peers/milo"
    mkdir -p "$peers/milo"
    mvn --quiet --batch-mode -Dstyle.color=never --file "$interop/milo/pom.xml" dependency:copy-dependencies -DoutputDirectory="$peers/milo/lib"
    javac -nowarn -Xlint:none -d "$peers/milo/classes" -cp "$peers/milo/lib/*" "$interop"/milo/src/*.java
    for program in Client Server; do
        starter "milo-${program,,}" java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "'$peers/milo/classes:$peers/milo/lib/*'" "$program"
    done
    echo "$sum" >"$peers/milo/.stamp"
}

# The source comes out of the crate open62541-sys, the full namespace 0 (which the crate leaves out) out of an npm package.
open62541() {
    node-opcua
    local sum
    sum=$(stamp "$interop"/open62541/*)
    fresh open62541 "$sum" && return
    local here=$peers/open62541
    open62541_library "$here"
    for program in client server bench decoder; do
        cc -std=c11 -O2 -Wall -D_GNU_SOURCE -I"$here/install/include" "$interop/open62541/$program.c" -o "$here/open62541-$program" \
            -L"$here/install/lib" -lopen62541 -Wl,-rpath,"$here/install/lib"
        starter "open62541-$program" "'$here/open62541-$program'"
    done
    echo "$sum" >"$here/.stamp"
}

open62541_library() { # DIRECTORY: source, build and install below it
    local here=$1 wanted="open62541-sys $open62541_sys, full namespace 0, OpenSSL, Release"
    [ "$(cat "$here/.library" 2>/dev/null)" = "$wanted" ] && return
    rm -rf "$here"
    mkdir -p "$here/fetch/src" "$here/nodeset/Schema"
    touch "$here/fetch/src/lib.rs"
    cat >"$here/fetch/Cargo.toml" <<EOF
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[workspace]
[dependencies]
open62541-sys = "=$open62541_sys"
EOF
    (cd "$here/fetch" && cargo vendor --quiet vendor >/dev/null)
    mv "$here/fetch/vendor/open62541-sys/open62541" "$here/source"
    rm -rf "$here/fetch"
    cp "$here"/source/tools/schema/{NodeIds.csv,StatusCode.csv,Opc.Ua.Types.bsd} "$here/nodeset/Schema/"
    cp "$peers/node-opcua/node_modules/node-opcua-nodesets/nodesets/Opc.Ua.NodeSet2.xml" "$here/nodeset/Schema/"
    cmake -S "$here/source" -B "$here/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$here/install" \
        -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=ON -DUA_ENABLE_ENCRYPTION=OPENSSL -DUA_NAMESPACE_ZERO=FULL \
        -DUA_NODESET_DIR="$here/nodeset" -DUA_LOGLEVEL=300 -DUA_ENABLE_PUBSUB=OFF >"$here/build.log" 2>&1 &&
        cmake --build "$here/build" -j "$(nproc)" >>"$here/build.log" 2>&1 &&
        cmake --install "$here/build" >>"$here/build.log" 2>&1 || {
        tail -20 "$here/build.log" >&2
        return 1
    }
    rm -rf "$here/build"
    echo "$wanted" >"$here/.library"
}

# `set -e` does not hold inside a condition, so each stack is installed by a process of its own.
if [ "${1:-}" = --one ]; then
    "$2"
    exit
fi

missing=0
[ $# -gt 0 ] || set -- asyncua node-opcua milo open62541 stormpy sirio
for stack in "$@"; do
    if bash "$0" --one "$stack"; then
        echo "peer $stack: ready"
    else
        echo "SKIPPED peer $stack: it could not be installed"
        missing=1
    fi
done
"$interop/certs.sh" "$peers/certs" asyncua node-opcua milo open62541 user trapkey \
    asyncua-server node-opcua-server milo-server open62541-server
if [ "${TRAPKEY_PEERS:-}" = required ]; then
    exit "$missing"
fi
