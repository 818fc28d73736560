# Tenon: `make` lists the targets. Every target sets up what it needs, shows
# that slow steps move, and is quick and quiet when there is nothing to do.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export PATH := $(PATH):/usr/local/go/bin
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false

STATICCHECK_VERSION := v0.8.2
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo development)
LDFLAGS := -X main.version=$(VERSION)
# Users and names are looked up by Go itself, and gRPC has no pages about itself:
# else the agent, which needs C for NVIDIA's library, has 1.3 MiB more in memory.
TAGS := osusergo,netgo,grpcnotrace
STEP := sh deploy/step.sh
# Whoever calls make builds; only what must be root goes through sudo.
SUDO := $(shell [ "$$(id -u)" -eq 0 ] || echo sudo)
# These make containers, bridges and images: as root, in `make test`.
ROOT_PACKAGES := ./internal/hypervisor/containerd ./internal/hypervisor/libvirt ./internal/network ./internal/imagebuild ./internal/devcloud
TEST_TIMEOUT := 10m
LAB_KILLS := 20

##@ Use

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup build ## Start a whole cloud on this machine; Ctrl-C stops it and all it started
	@$(SUDO) ./bin/tenond dev

build: web ## Build tenond, tenon-agent and tenon into bin/
	@$(STEP) 'build the programs' go build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

web: ## Build the console
	@sh deploy/web.sh build

clean: ## Stop this folder's cloud, then delete it and all that was built
	@if [ -d var ]; then \
		if [ -x bin/tenond ]; then $(SUDO) ./bin/tenond dev --clean; \
		elif [ -e var/cloud.json ]; then $(STEP) 'build tenond, to stop its cloud' go build -o bin/ ./cmd/tenond && $(SUDO) ./bin/tenond dev --clean; \
		else rm -rf var; fi; \
	fi
	@[ ! -d bin/test-cloud ] || $(SUDO) ./bin/tenond dev --clean --state bin/test-cloud
	@! mountpoint -q bin/test-cloud || $(SUDO) umount -l bin/test-cloud
	@[ ! -d bin/lab ] || $(SUDO) rm -rf bin/lab
	@[ ! -d bin/registry-cache ] || $(SUDO) rm -rf bin/registry-cache
	@[ ! -d bin/vm-image-cache ] || $(SUDO) rm -rf bin/vm-image-cache
	@rm -rf bin web/node_modules
	@if [ -d web/dist ]; then find web/dist -mindepth 1 ! -name .gitkeep -delete; fi

##@ Check

check: setup-tests format vet wall gen-check unit web-check ## Format, vet, staticcheck, walls, contract and schema drift, unit and Postgres tests, TypeScript (10 min at most)
	@echo 'make check: all passed'

test: check root-test replicas browser faults ## All of `make check`, then containerd, image and browser tests, and some faults (50 min at most)
	@echo 'make test: all passed'

format: ## Check that Go files are formatted
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not formatted; run gofmt -w on:"; echo "$$out"; exit 1; }

vet: bin/staticcheck-$(STATICCHECK_VERSION) web ## go vet and staticcheck
	@$(STEP) 'go vet' go vet ./...
	@$(STEP) 'staticcheck' bin/staticcheck-$(STATICCHECK_VERSION) ./...

wall: ## Check the floors, walls and habits of the house
	@go test -count=1 ./internal/wall

unit: web ## Unit tests and tests against a real Postgres
	@go test -p 2 -timeout $(TEST_TIMEOUT) $$(go list ./... | grep -v $(foreach p,$(ROOT_PACKAGES),-e '$(p:./%=/%)$$') -e /internal/wall$$)

root-test: setup-tests web ## Tests that need root: containers, networks, images, the supervisor
	@TENON_TEST_IMAGE=1 go test -p 1 -count=1 -timeout 20m $(if $(SUDO),-exec 'sudo --preserve-env=TENON_TEST_IMAGE') $(ROOT_PACKAGES)

web-check: ## TypeScript: types, lint and unit tests
	@sh deploy/web.sh check

browser: setup-tests build ## A journey through the console in Chromium, against a cloud of its own
	@TENON_TEST_IMAGES='jupyter' sh deploy/with-cloud.sh sh deploy/web.sh e2e

replicas: setup-tests web ## Two control planes on one Postgres: the leader is stopped, and killed
	@TENON_HA_ROUNDS=3 go test -count=1 -timeout 10m -run TestTheLeader ./cmd/tenond

faults: setup-tests proofs ## The short form of `make soak`: 30 faults on containers, VMs and simulated nodes
	@TENON_TEST_FLAGS='--simulate-nodes 12' TENON_TEST_IMAGES='debian-12-vm' sh deploy/with-cloud.sh $(SUDO) ./bin/proof/faults --state bin/test-cloud --faults 30 --each 15 --vms 1 --long 0 --kinds kill,stop,restart,cut

lab: setup-tests proofs ## Real VFIO and mediated devices on an emulated host with an IOMMU; LAB_KILLS=200 kills the agent more often (20 min at most)
	@$(STEP) 'build the host of the lab' $(SUDO) sh deploy/lab/host.sh bin/lab
	@$(STEP) 'build the guest of the lab' $(SUDO) sh deploy/lab/guest.sh bin/lab
	@TENON_TEST_FLAGS='--simulate-nodes 0 --node-hosts 10.0.2.2 --first-image-only' TENON_TEST_KEEP=no sh deploy/with-cloud.sh $(SUDO) ./bin/proof/lab --state bin/test-cloud --images bin/lab --work bin/lab/run --kills $(LAB_KILLS)

soak: setup-tests proofs ## 500 faults of every kind on containers, VMs and 50 simulated nodes; sets this host's clock off, and right again
	@TENON_TEST_FLAGS='--simulate-nodes 50' TENON_TEST_IMAGES='debian-12-vm' TENON_TEST_DISK=16G sh deploy/with-cloud.sh $(SUDO) ./bin/proof/faults --state bin/test-cloud --each 50

bench: setup-tests proofs ## Figures, each beside a baseline measured in the same run
	@sh deploy/bench.sh
	@sh deploy/with-cloud.sh $(SUDO) sh -c './bin/proof/start --state bin/test-cloud && ./bin/proof/admission --state bin/test-cloud'
	@TENON_TEST_FLAGS='--simulate-nodes 200' sh deploy/with-cloud.sh $(SUDO) ./bin/proof/fleet --state bin/test-cloud
	@TENON_TEST_FLAGS='--board hgx-h100 --simulate-nodes 0' sh deploy/with-cloud.sh $(SUDO) ./bin/proof/agent --state bin/test-cloud

proofs: build
	@$(STEP) 'build the proofs' go build -o bin/proof/ ./internal/proof/...

##@ Write

gen: web ## Write api/openapi.yaml, the console's types and migrations/schema.sql anew
	@sh deploy/gen.sh write

gen-check: web ## Fail if what `make gen` writes is not what is committed
	@sh deploy/gen.sh check

setup: ## Install what Tenon needs of Debian (nothing when it is there)
	@sh deploy/setup.sh

setup-tests:
	@sh deploy/setup.sh --tests

bin/staticcheck-$(STATICCHECK_VERSION):
	@mkdir -p bin
	@$(STEP) 'build staticcheck' env GOBIN=$(CURDIR)/bin go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv bin/staticcheck $@

.PHONY: help run build web clean check test format vet wall unit root-test replicas web-check browser faults soak bench proofs gen gen-check setup setup-tests
