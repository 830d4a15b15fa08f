# The public door. Everything a user or a developer needs starts with one of these words.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test ci bench clusters-up clusters-down fmt fmt-check layers clippy unit doc deny fuzz real tools

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/strait
ifndef CARGO_TARGET_DIR
export CARGO_TARGET_DIR := $(shell .ci/target-dir $(CACHE))
endif
NEXTEST_VERSION := 0.9.151
DENY_VERSION := 0.20.2
TOOLS := $(CACHE)/tools
export PATH := $(TOOLS)/bin:$(PATH)
MEMBERS ?= 2
FUZZ_SECONDS ?= 30

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

demo: ## three real clusters, and the main job shown on them; they stay up to play with
	@cargo run --quiet --locked --package strait-e2e --bin demo

test: fmt-check layers clippy unit doc deny fuzz real ## everything a change must pass

ci: test ## what .ci/run calls

clusters-up: ## real clusters without anything in them: a hub and MEMBERS members (2)
	@cargo xtask clusters up --members $(MEMBERS)

clusters-down: ## take the demo's clusters down, without a trace
	@cargo xtask clusters down

bench: ## compare with other tunnels: TUNNELS="strait relay knp-mtls rathole", SCENARIOS=bulk,latency
	bench/run

fmt: ## format the code
	cargo fmt --all

fmt-check:
	cargo fmt --all --check

layers:
	cargo xtask layers

clippy:
	cargo clippy --workspace --all-targets --all-features --locked -- --deny warnings

unit: tools
	cargo nextest run --workspace --exclude strait-e2e --locked
	cargo test --workspace --doc --locked --quiet

doc:
	RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet

deny: tools
	cargo deny --locked check --deny unnecessary-skip --deny unmatched-skip --deny license-not-encountered bans licenses sources

fuzz:
	fuzz/run decode $(FUZZ_SECONDS)
	fuzz/run sessions $(FUZZ_SECONDS)

real: tools
	e2e/run

tools:
	@test "$$($(TOOLS)/bin/cargo-nextest --version 2>/dev/null | awk 'NR==1{print $$2}')" = $(NEXTEST_VERSION) || \
	  CARGO_TARGET_DIR=$(CACHE)/tools-target cargo install --quiet --locked --root $(TOOLS) cargo-nextest@$(NEXTEST_VERSION)
	@test "$$($(TOOLS)/bin/cargo-deny --version 2>/dev/null | awk '{print $$2}')" = $(DENY_VERSION) || \
	  CARGO_TARGET_DIR=$(CACHE)/tools-target cargo install --quiet --locked --root $(TOOLS) cargo-deny@$(DENY_VERSION)
