#!/usr/bin/env bash
# Drives every peer client against every peer server, without Trapkey: what fails here is a fault of a peer program, not ours.
# Needs `make peers` first. Prints one line per pair and exits 1 when a step went wrong.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
peers=${TRAPKEY_PEERS_DIR:-$root/peers}
certs=$peers/certs
stacks=(asyncua node-opcua milo open62541)
clients=$certs/asyncua.der,$certs/node-opcua.der,$certs/milo.der,$certs/open62541.der
logs=$(mktemp -d)
trap 'exec 9>&-; wait; rm -rf "$logs"' EXIT

# Every server ends when its standard input does: they all read from this pipe.
mkfifo "$logs/stdin"
exec 9<>"$logs/stdin"
port=48501
for stack in "${stacks[@]}"; do
    "$peers/bin/$stack-server" --port $port --cert "$certs/$stack-server.der" --key "$certs/$stack-server.key.pem" \
        --trust "$clients" --user operator:secret <"$logs/stdin" >"$logs/$stack" 2>&1 9>&- &
    pids+=($!)
    port=$((port + 1))
done
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$logs"' EXIT
for stack in "${stacks[@]}"; do
    for _ in $(seq 300); do
        grep -q '"step": *"listening"' "$logs/$stack" && break
        sleep 0.1
    done
    grep -q '"ok": *true' "$logs/$stack" || { echo "$stack-server does not start"; cat "$logs/$stack"; exit 1; }
done

failed=0
run() { # CLIENT SERVER PORT OPTION...
    local client=$1 server=$2 port=$3
    shift 3
    if out=$("$peers/bin/$client-client" --url "opc.tcp://127.0.0.1:$port" --cert "$certs/$client.der" --key "$certs/$client.key.pem" \
        --trust "$certs/$server-server.der" "$@" 2>/dev/null); then
        echo "ok      $client -> $server  $*"
    else
        failed=1
        echo "FAILED  $client -> $server  $*"
        grep -v '"ok": *true' <<<"$out" || true
    fi
}

for client in "${stacks[@]}"; do
    port=48501
    for server in "${stacks[@]}"; do
        run "$client" "$server" $port --policy None --mode None --anonymous
        run "$client" "$server" $port --policy Basic256Sha256 --mode SignAndEncrypt --user operator:secret
        port=$((port + 1))
    done
done
exit $failed
