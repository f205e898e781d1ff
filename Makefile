# What a person or the CI types. Everything here is plain cargo and the scripts beside it.
#
#   make demo    a simulated batch line in which rights appear and vanish with the production step
#   make test    every gate: format, spelling, lints, documents, licences, all tests, all peers
#   make bench   our figures beside those of a peer, appended to bench-runs/
#   make fuzz    every fuzz target for 20 processor seconds (its own build, some minutes the first time)
#   make package a Debian package, in target/package
#   make peers   the other people's OPC UA stacks that the interoperation tests drive, stormpy and Sirio (into ./peers)

CARGO ?= cargo
PEERS ?= $(CURDIR)/peers

.PHONY: demo test bench fuzz package peers format spelling lint documents licences run-tests

demo:
	$(CARGO) run --release --locked --package trapkey -- demo

test: format spelling lint documents licences peers run-tests

bench: peers
	$(CARGO) run --release --locked --package bench -- order
	TRAPKEY_PEERS_DIR="$(PEERS)" $(CARGO) run --release --locked --package bench

fuzz:
	FUZZ_JOBS=2 FUZZ_LOG=target/short.md fuzz/run 20

package:
	$(CARGO) build --release --locked --package trapkey
	packaging/package.sh "$(or $(CARGO_TARGET_DIR),target)/release/trapkey" target/package

peers:
	TRAPKEY_PEERS_DIR="$(PEERS)" scripts/peers.sh

format:
	$(CARGO) fmt --all --check

spelling:
	@if command -v typos >/dev/null; then echo typos; typos; else echo "SKIPPED spelling: typos is not installed (cargo install typos-cli)"; fi

# Product code keeps the bans of clippy.toml; tests may read files and clocks.
lint:
	$(CARGO) clippy --locked --workspace -- -D warnings
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings -A clippy::disallowed_methods -A clippy::disallowed_types

documents:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet

licences:
	@if command -v cargo-deny >/dev/null; then echo cargo deny; $(CARGO) deny --log-level error check bans licenses sources; \
	else echo "SKIPPED licences: cargo-deny is not installed (cargo install cargo-deny)"; fi

run-tests:
	TRAPKEY_PEERS_DIR="$(PEERS)" $(CARGO) test --locked --workspace --no-fail-fast
