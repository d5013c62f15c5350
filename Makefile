# What people type. The scripts do the work; `make help` lists the targets.

SIDELANE := target/release/sidelane

.PHONY: help demo build test lint test-kernels test-shapes test-demos test-vms test-sweeps test-fleet swarm reproduce bench-simulator bench-model bench-collector bench-switch bench-ordinary check-prometheus check-dashboard install uninstall packages check-packages check-licences

PREFIX ?= /usr/local

help:
	@echo 'make demo          show a server beside batch work on an emulated SMT machine'
	@echo 'make test          check formats and lints, run all tests, boot the test bed'
	@echo 'make lint          formats, lints, the structure of the sources and of the guide'
	@echo 'make build         build $(SIDELANE)'
	@echo 'make install       install the program, man pages, units and the runtime library below PREFIX ($(PREFIX))'
	@echo 'make uninstall     remove what was installed there'
	@echo 'make packages      build .deb and .rpm of sidelane, sidelane-lab and sidelane-runtime into target/packages'
	@echo 'make check-packages  install, run and remove them on fresh machines with systemd, emulated'
	@echo 'make check-licences  licences, sources and duplicates of all dependencies'
	@echo 'make test-kernels  run the scheduler tests on several kernel versions'
	@echo 'make test-shapes   run some of them with 1, 4 and 8 lanes a core'
	@echo 'make test-demos    demonstrations with pools and with batch that steps aside, checked'
	@echo 'make test-vms      retention and pairing with virtual CPUs of KVM, emulated'
	@echo 'make test-sweeps   shards of a sweep through GNU parallel and Slurm are what one run prints'
	@echo 'make test-fleet    the agent of nodes and the chart against a real Kubernetes API server, and in the test bed'
	@echo 'make swarm         10,000 random machines, loads and faults, simulated'
	@echo 'make reproduce     all experiments, their verdicts and values held against those that are kept'
	@echo 'make bench-simulator  measure the simulator, also against others'
	@echo 'make bench-model   time decisions of the queueing model'
	@echo 'make bench-collector  what the collector of SMT metrics costs, in the test bed'
	@echo 'make bench-switch  what a switch of tasks costs, in executed instructions, in the test bed'
	@echo 'make bench-ordinary  ordinary work without any rule beside the default scheduler, in the test bed'
	@echo 'make check-prometheus  promtool tests the rules, a real Prometheus scrapes sidelane export in the test bed'
	@echo "make check-dashboard  holds the dashboard against Grafana's published schema"

demo: build
	@scripts/setup demo
	$(SIDELANE) demo $(DEMO_FLAGS)

build:
	@scripts/setup build
	cargo build --release --locked

install: build
	scripts/install $(SIDELANE) '$(DESTDIR)' '$(PREFIX)'

uninstall:
	scripts/install --remove '$(DESTDIR)' '$(PREFIX)'

packages:
	@scripts/setup packages
	scripts/packages

check-packages:
	@scripts/setup packages
	scripts/check-packages $(SUITES)

check-licences:
	@scripts/setup packages
	cargo deny --locked check licenses bans sources

test:
	@scripts/setup test
	scripts/lint formats
	scripts/test

lint:
	@scripts/setup lint
	scripts/lint

test-kernels:
	@scripts/setup test
	scripts/test kernels $(KERNELS)

test-shapes:
	@scripts/setup test
	cargo test --locked --workspace --test guest -- --ignored shapes::
	cargo test --locked --workspace --test guest -- --ignored 2x4::protection::

test-demos:
	@scripts/setup test
	cargo test --locked --workspace --test guest -- --ignored demos::

test-vms:
	@scripts/setup test
	cargo test --locked --workspace --test guest -- --ignored vms::

test-sweeps: build
	@scripts/setup sweeps
	scripts/check-sweeps $(SIDELANE)

test-fleet:
	@scripts/setup fleet
	@scripts/setup demo
	cargo clippy --locked --workspace --all-targets --features sidelane-node/kubernetes -- -D warnings
	cargo test --locked --workspace --lib --bins --features sidelane-node/kubernetes
	cargo build --release --locked --workspace --bin sidelane --bin sidelane-node --features sidelane-node/kubernetes
	scripts/check-prometheus --rules
	scripts/check-chart
	scripts/check-fleet target/release/sidelane-node
	cargo test --locked --workspace --features sidelane-node/kubernetes --test guest -- --ignored fleet::

swarm: build
	$(SIDELANE) sim --swarm $(or $(SEEDS),10000)

# The simulator is compiled for speed: it runs for minutes here, and for seconds in the other tests.
reproduce:
	cargo test --locked --workspace --config 'profile.dev.package.sidelane-sim.opt-level=3' --test sim -- --ignored experiments::all_verdicts

bench-simulator:
	@scripts/setup bench
	benchmarks/simulators/run
	cargo run --quiet --release --locked -p sidelane-sim --example bench_scheduler

bench-model:
	@scripts/setup build
	cargo bench --quiet --locked -p sidelane-model --bench decision

bench-collector: build
	@scripts/setup bench
	scripts/bench-collector $(or $(ROUNDS),5) $(SIDELANE)

bench-switch: build
	@scripts/setup bench
	scripts/bench-switch $(BENCH_FLAGS) $(SIDELANE)

bench-ordinary: build
	@scripts/setup bench
	scripts/bench-ordinary $(BENCH_FLAGS) $(SIDELANE)

check-prometheus: build
	@scripts/setup prometheus
	scripts/check-prometheus $(SIDELANE)

check-dashboard:
	@scripts/setup bench
	scripts/check-dashboard
	scripts/check-dashboard packaging/grafana/sidelane-fleet.json
