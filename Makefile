# Drydock. `make demo` and `make test` are all a newcomer needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
export CGO_ENABLED ?= 0

.PHONY: build
build: ## binaries in bin/: drydock, drydock-init, runsc
	scripts/build-runsc bin/runsc
	go build -trimpath -ldflags '-s -w' -o bin/drydock-init ./cmd/drydock-init
	go build -trimpath -o bin/drydock ./cmd/drydock
