# make build, demo, test and bench install by themselves what Debian packages they
# lack (as root, or through sudo), and say so.

GO        ?= go
BIN       := bin/peerdirect
RELEASE   ?=
LDFLAGS   := $(if $(RELEASE),-X main.release=$(RELEASE))
FUZZTIME  ?= 10s
COUNT     ?= 5
# Also there: 6.12/rxe, 6.12/siw, 6.1/siw, 6.12/topo, 7.3/trace-efa, -long, -faults and -locked, and trace… of the other kernels.
LAB_RUNS  ?= 7.3/rxe 7.3/siw 7.3/efa 7.3/topo 7.3/acs 6.12/efa \
	     6.1/rxe 6.1/efa 6.1/topo 7.3/trace 6.1/trace-efa
SUITES    ?=

# Where make install puts things, below DESTDIR; Debian's zsh has vendor-completions.
PREFIX    ?= /usr/local
DESTDIR   ?=
BINDIR    ?= $(PREFIX)/bin
MANDIR    ?= $(PREFIX)/share/man/man1
BASHDIR   ?= $(PREFIX)/share/bash-completion/completions
FISHDIR   ?= $(PREFIX)/share/fish/vendor_completions.d
ZSHDIR    ?= $(PREFIX)/share/zsh/site-functions

.PHONY: build man install uninstall demo test test-unit test-lab acceptance fuzz bench bench-lab generate lint clean \
	deb reproducible check-package test-packages check-builds

build:
	@scripts/deps build
	@mkdir -p bin
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/peerdirect

# Manual pages and completion, in build/man and build/completion. The pages' date is
# SOURCE_DATE_EPOCH, or the commit's.
# BINARY is another program than that of the checkout to write and to install.
BINARY    ?=
PROGRAM   := $(if $(BINARY),$(BINARY),$(BIN))

man: $(if $(BINARY),,build)
	@rm -rf build/man build/completion
	@mkdir -p build/man build/completion
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)} $(PROGRAM) man build/man
	$(PROGRAM) completion bash >build/completion/peerdirect
	$(PROGRAM) completion fish >build/completion/peerdirect.fish
	$(PROGRAM) completion zsh >build/completion/_peerdirect

install: man
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR) $(DESTDIR)$(BASHDIR) $(DESTDIR)$(FISHDIR) $(DESTDIR)$(ZSHDIR)
	install -m 755 $(PROGRAM) $(DESTDIR)$(BINDIR)/peerdirect
	install -m 644 build/man/*.1 $(DESTDIR)$(MANDIR)
	install -m 644 build/completion/peerdirect $(DESTDIR)$(BASHDIR)/peerdirect
	install -m 644 build/completion/peerdirect.fish $(DESTDIR)$(FISHDIR)/peerdirect.fish
	install -m 644 build/completion/_peerdirect $(DESTDIR)$(ZSHDIR)/_peerdirect

uninstall:
	rm -f $(DESTDIR)$(BINDIR)/peerdirect $(DESTDIR)$(MANDIR)/peerdirect.1 $(DESTDIR)$(MANDIR)/peerdirect-*.1
	rm -f $(DESTDIR)$(BASHDIR)/peerdirect $(DESTDIR)$(FISHDIR)/peerdirect.fish $(DESTDIR)$(ZSHDIR)/_peerdirect

demo: build
	$(BIN) demo

test: lint check-package test-unit test-lab

test-unit: build
	@scripts/deps test
	scripts/check-objects
	$(GO) test -race -timeout 20m ./...

test-lab: build
	@scripts/deps lab
	$(BIN) lab build --kernel all
	$(GO) test -count=1 -p 1 -timeout 20m -tags lab_host -run Host ./internal/lab ./cmd/peerdirect
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
# lab's kernels; by 'go install': half an hour and more.
test-packages: build
	@scripts/deps build deb check lab packages
	scripts/test-packages

# Without cgo, for arm64, for other systems: what docs/library.md says of building.
check-builds:
	scripts/check-builds

clean:
	rm -rf bin build
