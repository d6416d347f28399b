# make build, demo, test and bench install by themselves what Debian packages they
# lack (as root, or through sudo), and say so.

GO        ?= go
BIN       := bin/peerdirect
RELEASE   ?=
LDFLAGS   := $(if $(RELEASE),-X main.release=$(RELEASE))
FUZZTIME  ?= 10s
COUNT     ?= 5
# Also there: 6.12/rxe, 6.12/siw, 6.12/topo, 7.3/trace-efa, -long, -faults and -locked, and trace… of the other kernels.
LAB_RUNS  ?= 7.3/rxe 7.3/siw 7.3/efa 7.3/topo 7.3/acs 6.12/efa \
	     6.1/rxe 6.1/siw 6.1/efa 6.1/topo 7.3/trace 6.1/trace-efa
SUITES    ?=

.PHONY: build demo test test-unit test-lab acceptance fuzz bench bench-lab generate lint clean \
	deb reproducible check-package test-packages

build:
	@scripts/deps build
	@mkdir -p bin
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/peerdirect

demo: build
	$(BIN) demo

test: lint test-unit test-lab

test-unit: build
	@scripts/deps test
	scripts/check-objects
	$(GO) test -race ./...

test-lab: build
	@scripts/deps lab
	$(BIN) lab build --kernel all
	$(GO) test -count=1 -timeout 20m -tags lab_host -run Host ./internal/lab
	scripts/test-lab $(LAB_RUNS)
	scripts/acceptance 6.1/bind '*/srd'

# Upstream's own suites on the software EFA device: docs/acceptance.md. SUITES
# chooses, for example '7.3/test_*'.
acceptance: build
	@scripts/deps lab
	$(BIN) lab build --kernel all --with acceptance
	scripts/acceptance $(SUITES)

# Every fuzz target for FUZZTIME; what it finds stays in testdata/fuzz.
fuzz: build
	scripts/fuzz $(FUZZTIME)

bench: build
	@scripts/deps bench
	scripts/bench $(COUNT)

bench-lab: build
	@scripts/deps lab
	scripts/bench-lab $(COUNT)

generate: build
	@scripts/deps generate
	$(GO) generate ./...

lint: build
	@test -z "$$(gofmt -l .)" || { echo "gofmt these files:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags lab ./...
	$(GO) tool staticcheck -tags lab ./...

# The Debian package, in build/deb: docs/packages.md.
deb:
	@scripts/deps build deb
	scripts/deb

# Program and package of the last commit, twice, from other places: the same bytes.
reproducible:
	@scripts/deps build deb
	scripts/reproduce

# A quick look at what would be packaged, with the program as it is in bin.
check-package: build
	@scripts/deps build deb check
	scripts/check-package

# Installed, run and removed on fresh roots, as a service and in a container on the
# lab's kernels; by 'go install': half an hour.
test-packages: build
	@scripts/deps build deb check lab packages
	scripts/test-packages

clean:
	rm -rf bin build
