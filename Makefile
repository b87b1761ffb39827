# Every target is one step or a list of steps; what is longer than a line stands in contrib/*.sh. `make` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BIN    := bin
BUNDLE := $(BIN)/bundle
MESOS_DIR := $(BIN)/mesos
# Of make demo: real, or sim for the simulated Mesos.
MESOS  ?= real
STEP   := contrib/step.sh

# A clone that belongs to another user, as in CI, has no version control as far as go is concerned; the build stamps the
# version itself.
export GOFLAGS := $(filter-out -buildvcs=%,$(GOFLAGS)) -buildvcs=false
# Where tests, benches and the demo find what was built.
export MESOPOD_BUNDLE := $(CURDIR)/$(BUNDLE)
export MESOPOD_MESOS  := $(CURDIR)/$(MESOS_DIR)

RUNTIME := $(addprefix $(BUNDLE)/,containerd containerd-shim-runc-v2 ctr runc \
	cni/bridge cni/host-local cni/loopback cni/portmap)
IMAGES  := $(addprefix $(BUNDLE)/images/,pause.tar busybox.tar web.tar dns.tar)

RUNTIME_SOURCES := $(addprefix contrib/runtime/,build.sh go.mod go.sum)
IMAGE_SOURCES   := $(filter-out %_test.go,$(wildcard contrib/images/* contrib/images/*/* cmd/mesopod-image/*.go))
IMAGE_SOURCES   := $(filter-out contrib/images/pause contrib/images/web contrib/images/dns,$(IMAGE_SOURCES))

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install missing Debian packages (root, or sudo)
	@$(STEP) deps contrib/deps.sh

.PHONY: mesos
mesos: ## install a real Mesos 1.11.0 for tests and the demo into bin/mesos
	@$(STEP) mesos contrib/mesos/install.sh $(MESOS_DIR)

.PHONY: runtime
runtime: $(RUNTIME) ## build containerd, runc and the CNI plugins into bin/bundle

$(RUNTIME) &: $(RUNTIME_SOURCES)
	@$(STEP) runtime contrib/runtime/build.sh $(BUNDLE)

.PHONY: images
images: $(IMAGES) ## build mesopod's own container images into bin/bundle/images

$(IMAGES) &: $(IMAGE_SOURCES)
	@$(STEP) images contrib/images/build.sh $(BUNDLE)/images

.PHONY: build
build: ## build mesopod and mesopod-keeper into bin/bundle
	@$(STEP) build contrib/build.sh $(BUNDLE)

.PHONY: bundle
bundle: ## pack bin/bundle into one archive below bin/bundles, named after its SHA-256 (after runtime, images, build)
	@$(BUNDLE)/mesopod bundle --bundle-dir $(BUNDLE) $(BIN)/bundles

.PHONY: test
test: ## all that CI runs: everything below, from the Debian packages on
	@contrib/test.sh deps mesos runtime images build lint test-fast test-node test-e2e

.PHONY: test-fast
test-fast: ## unit tests with -race of all packages without k8s.io/kubernetes
	@packages=$$(contrib/packages.sh light); \
	$(STEP) test-fast env CGO_ENABLED=1 go test -race -shuffle=on -count=1 -timeout 15m $$packages

.PHONY: test-node
test-node: ## unit tests of the packages that embed Kubernetes
	@packages=$$(contrib/packages.sh heavy); \
	$(STEP) test-node env CGO_ENABLED=0 go test -shuffle=on -count=1 -timeout 20m $$packages

.PHONY: test-e2e
test-e2e: ## end-to-end tests on real Mesos, kubelet and containerd (root; after mesos, runtime, images, build)
	@[ "$$(id -u)" = 0 ] || { echo "test-e2e: run as root: it makes network namespaces, mounts and cgroups" >&2; exit 1; }
	@suites=$$(contrib/packages.sh suites); \
	$(STEP) test-e2e env CGO_ENABLED=0 go test -p 1 -count=1 -v -timeout 25m $$suites

.PHONY: test-kills
test-kills: ## kill each part of an agent, alone and in pairs, under both launchers (root; a quarter of an hour)
	@for launcher in linux posix; do \
	  $(STEP) test-kills-$$launcher env CGO_ENABLED=0 MESOPOD_KILLS=all MESOPOD_KILLS_LAUNCHER=$$launcher go test -count=1 -v -timeout 25m ./test/kills; \
	done

.PHONY: lint
lint: ## gofmt, go vet, staticcheck
	@$(STEP) lint contrib/lint.sh $(BIN)/tools

.PHONY: verify
verify: ## check that go.mod, go.sum and generated files are up to date
	@$(STEP) verify contrib/verify.sh

.PHONY: check
check: ## lint, the tests without privileges, verify
	@contrib/test.sh lint test-fast test-node verify

.PHONY: demo
demo: ## build all and run the demo on this machine (root); MESOS=sim needs no Mesos installed
	@contrib/test.sh deps $(if $(filter sim,$(MESOS)),,mesos) runtime images build
	@MESOS=$(MESOS) contrib/demo.sh

.PHONY: bench-start
bench-start: ## measure local mode: start to ready, first pod, 30 warm pods, memory (root; after mesos, runtime, images, build)
	@CGO_ENABLED=0 go run ./test/bench/start -bundle-dir $(BUNDLE)

.PHONY: bench-sim
bench-sim: ## measure the simulated Mesos: offers and updates per second, memory, at 100, 1,000 and 10,000 agents
	@CGO_ENABLED=0 go build -o $(BIN)/tools/bench-sim ./internal/mesossim/bench
	@for agents in 100 1000 10000; do $(BIN)/tools/bench-sim -agents $$agents; done

.PHONY: bench-scheduler
bench-scheduler: ## measure the scheduler on simulated agents against the upstream kube-scheduler (after build; NODES, PODS, ROUNDS, WORKLOADS)
	@CGO_ENABLED=0 go build -o $(BIN)/tools/kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
	@CGO_ENABLED=0 go build -o $(BIN)/tools/bench-sim ./internal/mesossim/bench
	@CGO_ENABLED=0 go build -o $(BIN)/tools/bench-scheduler ./test/bench/scheduler
	@for nodes in $(or $(NODES),1000 5000); do $(BIN)/tools/bench-scheduler -bundle-dir $(BUNDLE) -kube-scheduler $(BIN)/tools/kube-scheduler \
	  -bench-sim $(BIN)/tools/bench-sim -nodes $$nodes -pods $(or $(PODS),5000) -rounds $(or $(ROUNDS),5) $(if $(WORKLOADS),-workloads $(WORKLOADS)); done

.PHONY: bench-scale
bench-scale: ## measure the scheduler at 10,000 simulated agents and 100,000 tasks, 100 pods on one offer, and a failover (after build; AGENTS, TASKS, PODS, PARTS)
	@CGO_ENABLED=0 go build -o $(BIN)/tools/bench-sim ./internal/mesossim/bench
	@CGO_ENABLED=0 go build -o $(BIN)/tools/bench-scheduler ./test/bench/scheduler
	@CGO_ENABLED=0 go test -run '^$$' -bench '^BenchmarkOffers$$' -benchtime 20x ./scheduler/core | awk ' \
	  /^FAIL/ { bad = 1 } \
	  /^Benchmark/ { seen = 1; for (i = 4; i < NF; i += 1) if ($$(i + 1) == "offers/s") { \
	    print "figure scale-10000-agents-offers", $$i, "1/s target >= 10000 goal >= 20000"; bad = bad || $$i < 10000 } } \
	  END { exit bad || !seen }'
	@for part in $(or $(PARTS),pending failover offers start); do $(BIN)/tools/bench-scheduler -part $$part -bundle-dir $(BUNDLE) \
	  -bench-sim $(BIN)/tools/bench-sim -agents $(or $(AGENTS),10000) -tasks $(or $(TASKS),100000) -pods $(or $(PODS),2000); done

.PHONY: fuzz
fuzz: ## run each fuzz target for 30 s (FUZZTIME=30s)
	@$(STEP) fuzz contrib/fuzz.sh

.PHONY: test-resources
test-resources: ## what pods may use, at length: 100 pods that end, with and without CPU quotas of Mesos (root; after build)
	@$(STEP) test-resources env CGO_ENABLED=0 MESOPOD_LONG=1 go test -count=1 -v -timeout 20m ./test/resources

.PHONY: test-leases
test-leases: ## a thousand pods that end, fail or are deleted leave no address, link or rule (root; after build; six minutes)
	@$(STEP) test-leases env CGO_ENABLED=0 MESOPOD_LONG=1 go test -count=1 -v -timeout 90m -run '^TestLeasesEnd$$' ./test/network

.PHONY: test-chaos
test-chaos: ## kill parts and break links at random for ten minutes under 200 pods that come and go (MESOPOD_CHAOS=10m; root; after build)
	@$(STEP) test-chaos env CGO_ENABLED=0 MESOPOD_CHAOS=$(or $(MESOPOD_CHAOS),10m) go test -count=1 -v -timeout 60m ./test/chaos

.PHONY: test-outage
test-outage: ## the API server, an agent and its executor are away for a minute, all at once (root; after build)
	@$(STEP) test-outage env CGO_ENABLED=0 MESOPOD_LONG=1 go test -count=1 -v -timeout 10m -run '^(TestAllAway|TestControlPlaneAway)$$' ./test/e2e

.PHONY: test-long
test-long: ## what does not fit CI: fuzzing, the end-to-end suite three times over, benches (root; after build)
	@contrib/test.sh fuzz test-resources test-outage test-leases test-e2e test-e2e test-e2e test-chaos test-kills bench-start bench-executor bench-queue

.PHONY: generate
generate: ## write docs/deps, docs/scheduler-config.yaml and THIRD_PARTY.md anew
	@contrib/deps-list.sh
	@CGO_ENABLED=0 go run ./cmd/mesopod config default > docs/scheduler-config.yaml.new
	@mv docs/scheduler-config.yaml.new docs/scheduler-config.yaml
	@go run ./contrib/third-party

.PHONY: spec
spec: ## count the rows of docs/spec that tests prove (SPEC_VERBOSE=1 lists the others)
	@go run ./internal/speccheck $(if $(SPEC_VERBOSE),-v)

.PHONY: stats
stats: ## count lines of code and tests by folder
	@contrib/stats.sh

.PHONY: bench-executor
bench-executor: ## measure the executor against the upstream kubelet and kube-proxy, then what 1,000 pods leave in it (root; after build)
	@CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/tools/ k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-proxy
	@CGO_ENABLED=0 go build -o $(BIN)/bench-executor ./test/bench/executor
	@$(BIN)/bench-executor -kubelet $(BIN)/tools/kubelet -kube-proxy $(BIN)/tools/kube-proxy -rounds $(or $(ROUNDS),3)
	@$(BIN)/bench-executor -churn $(or $(CHURN),1000)

.PHONY: bench-queue
bench-queue: ## measure what 2,000 changes of offers a second cost while 1,000 pods wait for others
	@CGO_ENABLED=0 go test -run '^$$' -bench '^BenchmarkOffersWhilePodsWait$$' -benchtime 10x ./scheduler/kube | awk ' \
	  /^FAIL/ { bad = 1 } \
	  /^Benchmark/ { seen = 1; for (i = 4; i < NF; i += 1) { \
	    if ($$(i + 1) == "%core") { print "figure offers-while-pods-wait", $$i, "% of a core target <= 25"; bad = bad || $$i > 25 } \
	    if ($$(i + 1) == "changes/s") print "figure offers-while-pods-wait-changes", $$i, "1/s" } } \
	  END { exit bad || !seen }'

.PHONY: bench-network
bench-network: ## measure pods' ways and Services' rules against plain ways and upstream's kube-proxy (root; after build)
	@CGO_ENABLED=0 go build -ldflags='-s -w' -o $(BIN)/tools/ k8s.io/kubernetes/cmd/kube-proxy
	@CGO_ENABLED=0 go build -o $(BIN)/bench-network ./test/bench/network
	@$(BIN)/bench-network -kube-proxy $(BIN)/tools/kube-proxy -rounds $(or $(ROUNDS),5) -part $(or $(PART),all)

.PHONY: hooks
hooks: ## use contrib/hooks in this clone
	@git config core.hooksPath contrib/hooks

.PHONY: clean
clean: ## remove what was built
	@rm -rf --one-file-system $(BIN)

.PHONY: distclean
distclean: clean ## remove also what was downloaded for Mesos
	@rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/mesopod"
