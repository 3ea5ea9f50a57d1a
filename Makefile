# `make` alone tells what there is. Everything that a target needs is set up in .cache
# by scripts/setup, in pinned versions.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
export ECHOSEAL_PEERS := $(CURDIR)/.cache

# A number of inputs and not a time: go test -fuzz that runs into its time while it
# minimizes an input fails for no reason.
FUZZTIME ?= 100000x

.PHONY: help
help: ## Show this
	sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

.PHONY: test
test: ## Check everything, as the build server does: format, lint, tidiness, fuzz smoke, all tests against the real peers
	scripts/setup
	scripts/check
	echo "== fuzz targets, $(FUZZTIME) each"
	scripts/fuzz $(FUZZTIME)
	echo "== the root module in FIPS 140-3 mode"
	GODEBUG=fips140=only go test -json -shuffle=on ./... | go run ./integration/testreport
	echo "== what the race detector would falsify: how much keytool inspect allocates"
	go test -json -run '^TestInspectHostileInput$$' ./cmd/keytool/cli | go run ./integration/testreport
	echo "== all tests, with the race detector and the peers"
	go test -json -race -shuffle=on -timeout 5m work | go run ./integration/testreport

.PHONY: lint
lint: ## Check format, vet, lint and tidiness only
	scripts/setup
	scripts/check

.PHONY: tidy
tidy: ## Format the code and tidy every module
	gofmt -w $$(git ls-files '*.go')
	scripts/tidy

.PHONY: fuzz
fuzz: ## Fuzz each target, FUZZTIME=10000000x for longer than make test does
	scripts/fuzz $(FUZZTIME)

# How many states of each model of rotation are walked through, nearest first.
MODEL_STATES ?= 20000000

.PHONY: model
model: ## Walk through larger models of rotation than make test does, MODEL_STATES=80000000 for further
	GOMEMLIMIT=6GiB ECHOSEAL_MODEL_STATES=$(MODEL_STATES) go test -v -count=1 -timeout 24h -run TestEveryTokenIsAccepted ./rotation

# How long each of the fleets lives.
FLEET_TIME ?= 8m

.PHONY: test-fleet
test-fleet: ## Let everything happen to real fleets again and again, FLEET_TIME=1h for longer
	scripts/setup
	ECHOSEAL_FLEET_TIME=$(FLEET_TIME) go test -v -count=1 -timeout 24h ./integration/livefleet

.PHONY: release-check
release-check: ## Rehearse a release of the committed tree without a network: install and get every module
	scripts/release-check

.PHONY: bench
bench: ## Measure seals and unseals against the floor and beside peers: one table
	go run ./bench

.PHONY: bench-spread
bench-spread: ## Measure cores, rings, hot swaps, FIPS mode and a server's round, with their spread
	go run ./bench -spread

.PHONY: bench-page
bench-page: ## Measure both and write them into docs/performance.md; on a quiet machine
	go run ./bench -write docs/performance.md

.PHONY: quickstart
quickstart: ## Run the quickstart
	go run ./examples/quickstart
