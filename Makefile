# Drydock. `make demo` and `make test` are all a newcomer needs; both install
# what is missing, and both are safe to repeat.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export CGO_ENABLED ?= 0
export PATH := $(shell scripts/go-path):$(PATH)

MODEL ?=
DEMO_STATE ?=
FUZZTIME ?= 60s

.PHONY: help
help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: ## install what building, running and testing need (Debian 12 or newer)
	@scripts/setup

.PHONY: build
build: ## the page, and binaries in bin/: drydock, drydock-init, runsc
	@scripts/build-runsc bin/runsc
	@scripts/web build --maybe
	@go build -trimpath -ldflags '-s -w' -o bin/drydock-init ./cmd/drydock-init
	@go build -trimpath -ldflags "-X main.revision=$$(git describe --always --dirty=+ --abbrev=12 2>/dev/null || true)" -o bin/drydock ./cmd/drydock

.PHONY: demo
demo: setup build ## a whole session on a bundled repository; MODEL=name uses a real model
	@bin/drydock demo $(if $(MODEL),--model $(MODEL)) $(if $(DEMO_STATE),--state $(DEMO_STATE))

.PHONY: check
check: ## format, vet, lint, import rules, generated files: under two minutes when warm
	@scripts/check

.PHONY: test
test: setup build check ## everything, also what needs root, runsc and a browser
	@scripts/test

.PHONY: bench
bench: build ## a table of ratios against floors measured in the same run, and bin/bench.json
	@go run ./bench -out bin/bench.json

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	@scripts/fuzz $(FUZZTIME)

.PHONY: generate
generate: ## refresh generated files: docs/openapi.json, docs/cli.md, JSON schemas, types of the page
	@go test $$(grep -rl --include=*_test.go "flag.Bool(.update." internal | xargs -n1 dirname | sort -u | sed "s,^,./,") -run 'Golden|Generated' -update
	@scripts/web types

.PHONY: web
web: ## the web page alone, into internal/surface/web/dist (the daemon embeds it)
	@scripts/web build
