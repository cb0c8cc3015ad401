BIN      := .holdfast/bin
# The same as devnet.Tags, see there.
LND_TAGS := autopilotrpc chainrpc invoicesrpc neutrinorpc peersrpc routerrpc signrpc walletrpc watchtowerrpc kvdb_postgres kvdb_sqlite lowscrypt
PROGRAMS := ./cmd/... github.com/lightningnetwork/lnd/cmd/lnd github.com/btcsuite/btcd

# The same for every target: both settings are part of the key of Go's build cache, and what one target has compiled the others
# need not compile again. Without cgo no C compiler is needed either. Without buildvcs a clone that belongs to somebody else builds:
# there git, and with it the compiler, refuses to look.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -buildvcs=false

.PHONY: run demo chaos simulate build clean test test-fast bench fuzz lint vuln generate check-generated help

## run: PostgreSQL, a Lightning network of four LND and the service, until Ctrl-C
run: build
	@exec $(BIN)/holdfast-dev --follow-parent run

## demo: every payment flow on a stack of its own, with real payments; ends by itself
demo: build
	@exec $(BIN)/holdfast-dev --follow-parent demo

## chaos: the real stack under load for DURATION while its parts are killed (SEED repeats the kills); the last line is JSON
DURATION ?= 10m
SEED     ?=
chaos: build
	@exec $(BIN)/holdfast-dev --follow-parent chaos --duration $(DURATION) $(if $(SEED),--seed $(SEED))

## simulate: SEEDS random schedules of faults, from SEED_START on; the last line is JSON
SEEDS      ?= 200
SEED_START ?= 1
simulate:
	@mkdir -p $(BIN)
	go build -o $(BIN)/ ./cmd/holdfast-dev
	@exec $(BIN)/holdfast-dev --follow-parent simulate --seeds $(SEEDS) --seed-start $(SEED_START)

## build: the service, its development companion, LND and btcd into .holdfast/bin
build:
	@mkdir -p $(BIN)
	@test -x $(BIN)/lnd || echo "Building Holdfast, LND and btcd into $(BIN): five to ten minutes on two cores the first time, seconds later."
	go build -tags "$(LND_TAGS)" -o $(BIN)/ $(PROGRAMS)

## clean: remove everything that run and build made, unless run is at work
clean:
	@# What is there is claimed while it is in use, see internal/child.
	@for claim in .holdfast/*/claim.lock; do test ! -e "$$claim" || flock -n "$$claim" true || \
		{ echo "directory $${claim%/*}: in use by another process: stop it first; nothing was removed" >&2; exit 1; }; done
	@# Where PostgreSQL's user cannot reach this directory, .holdfast/postgres is a link to where its data are.
	@data=$$(readlink .holdfast/postgres); case "$$data" in /var/tmp/holdfast-postgres-*) rm -rf "$$data";; esac
	rm -rf .holdfast

## test: every test, with the race detector; fails where a part is missing
test: build
	@$(BIN)/holdfast-dev with-postgres -- $(MAKE) --no-print-directory test-all

.PHONY: test-all
test-all:
	@# Those that last longest begin first, else one processor has nothing to do at the end.
	@begun=$$(date +%s); { HOLDFAST_BIN=$(abspath $(BIN)) CGO_ENABLED=1 go test -race -count=1 -timeout 30m ./relay ./community ./internal/bench ./reconcile ./... 2>&1; echo "exit $$?"; } | awk -v begun=$$begun ' \
		/^exit [0-9]+$$/ { code = $$2; next } \
		/no test files/  { next } \
		/^ok /           { passed++ } \
		/^FAIL\t/        { failed++ } \
		                 { print; fflush() } \
		END { "date +%s" | getline now; printf "%d packages passed, %d failed, in %d s\n", passed, failed, now - begun; exit code }'

## test-fast: the inner loop, under a minute when built: the engine, its books and rules, and the structure of the repository, but for what takes long; test has all
test-fast:
	go test -skip 'OneKeyOfManyClients|BooksAgreeWithAModel|TestMemory/(ManyHeldKeys|TouchAndLoss|ManualTouch)' ./lock ./paidaction/... ./ledger/... ./lightning/wrap ./lightning/simnode/... ./web ./internal/config ./internal/architecture ./internal/diagram ./internal/capability

## bench: a zap beside what PostgreSQL itself needs, and by several processes, and payments over Lightning, into BENCHMARKS.md; what a zap costs with a
## million behind it, a start before open invoices, and the lock beside others (ONLY=credit, scale, flows, growth or lock); last a line of JSON
ONLY ?=
BENCH ?=
bench:
	@mkdir -p $(BIN)
	$(if $(filter flows growth,$(or $(ONLY),flows)),@$(MAKE) --no-print-directory build,go build -o $(BIN)/ ./cmd/holdfast ./cmd/holdfast-dev)
	go build -o $(BIN)/lock-bench ./lock/bench
	@exec $(BIN)/holdfast-dev --follow-parent bench --write BENCHMARKS.md $(if $(ONLY),--only $(ONLY)) $(BENCH)

## fuzz: every parser of foreign input on inputs that nobody thought of, for FUZZTIME each (1m); what breaks one is kept in testdata
FUZZTIME ?= 1m
fuzz:
	@grep -rl --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do \
		grep -o '^func Fuzz[A-Za-z0-9]*' $$file | while read -r _ target; do \
			go test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
		done || exit 1; \
	done

## e2e: the pages in a real Chromium against the real stack; test has it too
.PHONY: e2e
e2e: build
	HOLDFAST_BIN=$(abspath $(BIN)) go test -count=1 ./web/e2e

## shots: a picture of every page of the client and of the operator, in light, in dark and on a phone, into .holdfast/shots
.PHONY: shots
shots: build
	@mkdir -p .holdfast/shots && rm -f .holdfast/shots/*.png
	@HOLDFAST_BIN=$(abspath $(BIN)) HOLDFAST_SHOTS=$(abspath .holdfast/shots) go test -count=1 ./web/e2e -run 'TestClient/(every_page|operators)'
	@echo "$$(ls .holdfast/shots | wc -l) pictures are in .holdfast/shots"

## lint: formatting, vet, staticcheck (staticcheck.conf) and the structure of the repository
lint:
	@unformatted=$$(gofmt -l */); test -z "$$unformatted" || { echo "Not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; }
	go test ./internal/architecture
	go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...

## vuln: known vulnerabilities in what the code calls, by Go's database, which VULNDB can name a copy of
VULNDB ?= https://vuln.go.dev
GOVULNCHECK = go tool -modfile=tools/go.mod govulncheck -db $(VULNDB)
vuln:
	@$(GOVULNCHECK) -mode query -json stdlib@v1.26.0 >/dev/null || { \
		echo "Nothing was checked: the database of vulnerabilities at $(VULNDB) cannot be reached from here." >&2; exit 1; }
	$(GOVULNCHECK) ./...

## generate: the queries, the GraphQL code, the diagram and the table of actions from what they are made of
generate:
	go tool -modfile=tools/go.mod sqlc generate
	go tool gqlgen generate
	go tool -modfile=tools/go.mod esbuild web/src/app.tsx web/src/app.css --tsconfig=web/tsconfig.json --outdir=web/dist --bundle --minify \
		--format=esm --target=es2022 --charset=utf8 --legal-comments=inline --log-level=warning
	go run ./internal/diagram
	go run ./internal/capability
	@find graph internal lock -name '*.gen.go' -exec gofmt -w {} +

## check-generated: fail if generate would change anything; tried on a copy, so that nothing here is touched
check-generated:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir "$$dir/ours" && \
	git ls-files -z --cached --others --exclude-standard | tar -cf - --null --ignore-failed-read -T - | tar -xf - -C "$$dir/ours" && \
	cp -r "$$dir/ours" "$$dir/fresh" && find "$$dir/fresh" -name '*.gen.go' -delete && rm -f "$$dir"/fresh/web/dist/* && \
	$(MAKE) --no-print-directory -C "$$dir/fresh" generate && cd "$$dir" && \
	{ diff -ru ours fresh || { echo "Generated code is not current: make generate"; exit 1; }; }

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
