BIN      := .holdfast/bin
LND_TAGS := autopilotrpc chainrpc invoicesrpc neutrinorpc peersrpc routerrpc signrpc walletrpc watchtowerrpc kvdb_postgres kvdb_sqlite
PROGRAMS := ./cmd/... github.com/lightningnetwork/lnd/cmd/lnd github.com/btcsuite/btcd

# The same for every target: both settings are part of the key of Go's build cache, and what one target has compiled the others
# need not compile again. Without cgo no C compiler is needed either.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath

.PHONY: run build clean

## run: PostgreSQL, a Lightning network of three LND and the service, until Ctrl-C
run: build
	@exec $(BIN)/holdfast-dev --follow-parent run

## build: the service, its development companion, LND and btcd into .holdfast/bin
build:
	@mkdir -p $(BIN)
	@test -x $(BIN)/lnd || echo "Building Holdfast, LND and btcd into $(BIN): about ten minutes on two cores the first time, seconds later."
	go build -tags "$(LND_TAGS)" -o $(BIN)/ $(PROGRAMS)

## clean: remove everything that run and build made
clean:
	@# Where PostgreSQL's user cannot reach this directory, .holdfast/postgres is a link to where its data are.
	@data=$$(readlink .holdfast/postgres); case "$$data" in /var/tmp/holdfast-postgres-*) rm -rf "$$data";; esac
	rm -rf .holdfast
