package config

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/a-seed-a7aed72f/holdfast/lightning/pool"
	"github.com/a-seed-a7aed72f/holdfast/lightning/wrap"
	"github.com/a-seed-a7aed72f/holdfast/lock"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

var secret = strings.Repeat("5a", 32)

// parse reads settings as the program does.
func parse(t *testing.T, environment, args []string) (*Config, error) {
	t.Helper()
	var c struct {
		Config `embed:""`
		File   string `name:"config"`
	}
	parser, err := kong.New(&c, kong.Resolvers(Resolver(environment)), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return &c.Config, err
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsBeforeEnvironmentBeforeFileBeforeDefaults(t *testing.T) {
	t.Parallel()
	path := file(t, `{"max-pending": 1, "safety-blocks": 2, "listen": "127.0.0.1:3", "roles": ["api"], "invoice-expiry": "4m", "development": true}`)
	environment := []string{"HOLDFAST_CONFIG=" + path, "HOLDFAST_MAX_PENDING=10", "HOLDFAST_LISTEN=127.0.0.1:30", "HOLDFAST_NODES=", "HOLDFAST_SAFETY_BLOCKS=", "OTHER=1"}
	c, err := parse(t, environment, []string{"--listen=127.0.0.1:300"})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Listen, " ", c.MaxPending, c.SafetyBlocks, c.CLTVDelta, c.Roles, c.InvoiceExpiry, c.Development, len(c.Nodes))
	if want := "127.0.0.1:300 10 2 80 [api] 4m0s true 0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := parse(t, nil, []string{"--config", path}); err != nil {
		t.Errorf("the file as a flag: %v", err)
	}
}

func TestTheDefaultsWork(t *testing.T) {
	t.Parallel()
	c, err := parse(t, []string{"HOLDFAST_SECRET=" + secret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if hex.EncodeToString(c.Key()) != secret || !c.Has("api") || !c.Has("worker") || !c.Has("listener") {
		t.Errorf("%+v", c)
	}
	// In development even the secret has a default.
	c, err = parse(t, []string{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK=simnet"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil || len(c.Key()) < 32 {
		t.Errorf("%v, key of %d bytes", err, len(c.Key()))
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"role":              {"--roles=api,king"},
		"network":           {"--network=moon"},
		"secret":            {"--secret=topsecret"},
		"database":          {"--database-url=host=localhost password=topsecret"},
		"database password": {"--database-url=postgres://u:topsecret%zz@h/d"},
		"node":              {"--nodes=alice"},
		"node address":      {"--nodes=alice=localhost;tls=a;macaroon=b"},
		"node file":         {"--nodes=alice=localhost:1;tls=a"},
		"node part":         {"--nodes=alice=localhost:1;tls=a;macaroon=b;cheese=c"},
		"node's sending":    {"--nodes=alice=localhost:1;tls=a;macaroon=b;send=maybe"},
		"node's slots":      {"--nodes=alice=localhost:1;tls=a;macaroon=b;slots=0"},
		"too many slots":    {"--nodes=alice=localhost:1;tls=a;macaroon=b;slots=484"},
		"slots, no sending": {"--nodes=alice=localhost:1;tls=a;macaroon=b;send=no;slots=2"},
		"node twice":        {"--nodes=a=h:1;tls=a;macaroon=b a=h:2;tls=a;macaroon=b"},
		"level":             {"--log-level=shout"},
		"no file":           {"--config=" + filepath.Join(t.TempDir(), "none")},
		"no JSON":           {"--config=" + file(t, "max-pending: 3")},
		"misspelt key":      {"--config=" + file(t, `{"max_pendin": 3}`)},
		"no unit":           {"--config=" + file(t, `{"territory-grace": 432000}`)},
		"no whole number":   {"--config=" + file(t, `{"sybil-pct": 7.5}`)},
		"not in a list":     {"--config=" + file(t, `{"upload-fees": [0, 1e4, 100000, 1000000]}`)},
		"two objects":       {"--config=" + file(t, `{"max-pending": 3} {"max-pending": 4}`)},
		"strategy":          {"--lock-strategy=hope"},
		"keys' password":    {"--jwks-url=https://u:topsecret@site.example/jwks"},
		"keys' bad URL":     {"--jwks-url=https://u:topsecret%zz@site.example/jwks"},
		"Redis":             {"--lock-redis-url=topsecret@localhost:6379"},
		"Redis password":    {"--lock-redis-url=redis://:topsecret%zz@localhost:6379"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, nil, args)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "topsecret") {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}

// With a misspelt setting the default would stay in force, and nobody would be told.
func TestUnknownVariablesAreRefused(t *testing.T) {
	t.Parallel()
	for variable, nearest := range map[string]string{
		"HOLDFAST_MAX_PENDNG=topsecret":           "HOLDFAST_MAX_PENDING",
		"HOLDFAST_RELAY_WITHDRAWAL_LIMIT=1":       "HOLDFAST_RELAY_WITHDRAW_LIMIT",
		"HOLDFAST_DATABSE_URL=postgres://u:p@h/d": "HOLDFAST_DATABASE_URL",
		"HOLDFAST_NO_LOCK_ENABLED=true":           "HOLDFAST_LOCK_ENABLED",
		"HOLDFAST_max_pending=3":                  "HOLDFAST_",
		"HOLDFAST_PORT=8080":                      "HOLDFAST_",
		"HOLDFAST_YES=true":                       "as its flag",
		"HOLDFAST_=1":                             "HOLDFAST_",
	} {
		name, value, _ := strings.Cut(variable, "=")
		if _, err := parse(t, []string{variable, "HOLDFAST_MAX_PENDING=10"}, nil); err == nil || !strings.Contains(err.Error(), name+" is no setting") ||
			!strings.Contains(err.Error(), nearest) || len(value) > 4 && strings.Contains(err.Error(), value) {
			t.Errorf("%s: %v", variable, err)
		}
	}
	if _, err := parse(t, []string{"HOLDFAST_LISTN=a:1", "HOLDFAST_ROLS=api"}, nil); err == nil || !strings.Contains(err.Error(), "HOLDFAST_LISTN ") || !strings.Contains(err.Error(), "HOLDFAST_ROLS ") {
		t.Errorf("two at once: %v", err)
	}
	if _, err := parse(t, nil, []string{"--config=" + file(t, `{"max_pendin": 3}`)}); err == nil || !strings.Contains(err.Error(), "nearest one is max-pending") {
		t.Errorf("in the file: %v", err)
	}
}

// Variables of others are not refused for their names: those of tests and holdfast-dev, those that Kubernetes sets for
// a service called holdfast, and empty ones.
func TestVariablesOfOthersAreNotRefused(t *testing.T) {
	t.Parallel()
	if _, err := parse(t, []string{
		"HOLDFAST_BIN=/work/bin", "HOLDFAST_SHOTS=/work/shots", "HOLDFAST_TEST_POSTGRES=postgres://h/d", "HOLDFAST_PENDING=", "holdfast_max=1", "HOLDFASTER=1",
		"HOLDFAST_SERVICE_HOST=10.0.0.11", "HOLDFAST_SERVICE_PORT=8080", "HOLDFAST_SERVICE_PORT_HTTP=8080", "HOLDFAST_PORT=tcp://10.0.0.11:8080",
		"HOLDFAST_PORT_8080_TCP=tcp://10.0.0.11:8080", "HOLDFAST_PORT_8080_TCP_PROTO=tcp", "HOLDFAST_PORT_8080_TCP_PORT=8080", "HOLDFAST_PORT_8080_TCP_ADDR=10.0.0.11",
		"HOLDFAST_API_SERVICE_HOST=10.0.0.11", "HOLDFAST_API_PORT=tcp://10.0.0.11:8080",
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestImpossibleCombinations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, word string }{
		{"HOLDFAST_SECRET=", "HOLDFAST_SECRET"},
		{"HOLDFAST_SECRET=abcd", "32"},
		{"HOLDFAST_OPERATOR_KEY=abcd", "operator's key has 2 bytes"},
		{"HOLDFAST_OPERATOR_KEY=" + secret, "HOLDFAST_OPERATOR_KEY"},
		{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK"},
		{"HOLDFAST_ROLES=listener", "HOLDFAST_NODES"},
		{"HOLDFAST_DATABASE_POOL=3", "HOLDFAST_DATABASE_POOL"},
		{"HOLDFAST_CLTV_DELTA=53", "HOLDFAST_CLTV_DELTA to 54"},
		{"HOLDFAST_SAFETY_BLOCKS=50", "HOLDFAST_CLTV_DELTA to 92"},
		{"HOLDFAST_INVOICE_EXPIRY=1ms", "HOLDFAST_INVOICE_EXPIRY"},
		{"HOLDFAST_INVOICE_EXPIRY=9000h", "between 2s and 24h"},
		{"HOLDFAST_CLTV_DELTA=70000", "2012 blocks or less"},
		{"HOLDFAST_HOLD_EXPIRY_DELTA=0", "HOLDFAST_HOLD_EXPIRY_DELTA"},
		{"HOLDFAST_SAFETY_BLOCKS=0", "HOLDFAST_SAFETY_BLOCKS"},
		{"HOLDFAST_SAFETY_BLOCKS=4294967290", "892 blocks or less together"}, // the sum does not fit into the numbers added
		{"HOLDFAST_HOLD_EXPIRY_DELTA=1000", "892 blocks or less together"},
		{"HOLDFAST_NODE_SLOTS=100000000", "483 payments or less"},
		{"HOLDFAST_MAX_PENDING=0", "HOLDFAST_MAX_PENDING"},
		{"HOLDFAST_NODE_SLOTS=0", "HOLDFAST_NODE_SLOTS"},
		{"HOLDFAST_NODE_COOLDOWN=-1s", "HOLDFAST_NODE_"},
		{"HOLDFAST_NODE_RETRY_TIMEOUT=0s", "retry timeout"},
		{"HOLDFAST_NODE_FAILURE_COOLDOWN=9000h", "HOLDFAST_NODE_FAILURE_COOLDOWN to 10m0s or less"},
		{"HOLDFAST_NODE_PROBE=9000h", "HOLDFAST_NODE_PROBE and"},
		{"HOLDFAST_NODE_UNKNOWNS=1000000", "HOLDFAST_NODE_UNKNOWNS to 100"},
		{"HOLDFAST_RELAY_MAX_WAIT=9000h", "HOLDFAST_RELAY_MAX_WAIT from 1m to 24h0m0s"},
		{"HOLDFAST_RELAY_AUDIT=9000h", "HOLDFAST_RELAY_AUDIT"},
		{"HOLDFAST_RELAY_SEND_TIMEOUT=9000h", "HOLDFAST_RELAY_SEND_TIMEOUT from 1s to 10m0s"},
		{"HOLDFAST_RELAY_ASK_TIMEOUT=9000h", "HOLDFAST_RELAY_ASK_TIMEOUT and"},
		{"HOLDFAST_RATE_KEY=-1", "HOLDFAST_RATE_"},
		{"HOLDFAST_RATE_WRONG_KEYS=NaN", "HOLDFAST_RATE_"},
		{"HOLDFAST_RATE_ADDRESS=inf", "to 0 for no limit"},
		{"HOLDFAST_LOCK_STRATEGY=redis", "HOLDFAST_LOCK_REDIS_URL"},
		{"HOLDFAST_LOCK_REDIS_URL=redis://localhost", "HOLDFAST_LOCK_STRATEGY to redis"},
		{"HOLDFAST_LOCK_MAX_HOLD=0s", "HOLDFAST_LOCK_MAX_HOLD"},
		{"HOLDFAST_LOCK_TTL=1ms", "HOLDFAST_LOCK_TTL"},
		{"HOLDFAST_LOCK_MAX_WAIT=0s", "HOLDFAST_LOCK_MAX_WAIT"},
		{"HOLDFAST_LOCK_MAX_QUEUE=0", "HOLDFAST_LOCK_MAX_QUEUE"},
		{"HOLDFAST_LOCK_MAX_KEYS=0", "HOLDFAST_LOCK_MAX_KEYS"},
		{"HOLDFAST_LOCK_HEARTBEAT=6s", "HOLDFAST_LOCK_HEARTBEAT"},
		{"HOLDFAST_LOCK_MISSED=0", "HOLDFAST_LOCK_MISSED"},
		{"HOLDFAST_LOCK_POLL_INTERVAL=0s", "HOLDFAST_LOCK_POLL_INTERVAL"},
		{"HOLDFAST_LOCK_POLL_INTERVAL=9000h", "HOLDFAST_LOCK_POLL_INTERVAL to between 1ms and 5s"},
	} {
		parsed, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, c.env}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.env, err)
			continue
		}
		if err := parsed.Check(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.env, err)
		}
		parsed.Lock.Enabled = false
		if err := parsed.Check(); (err == nil) != strings.Contains(c.env, "_LOCK_") {
			t.Errorf("%s without the lock: %v", c.env, err)
		}
	}
}

// Blocks are limited by what LND pays and locks money for. The highest accepted number works; one block more would not.
func TestBlocksThatNoInvoiceCanMeetAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		delta, distance uint32 // the final CLTV of our invoices; hold expiry delta and safety blocks together
		refused         bool
	}{{916, 892, false}, {917, 893, true}, {1500, 1000, true}, {2012, 30, false}, {2013, 30, true}} {
		settings, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, fmt.Sprint("HOLDFAST_CLTV_DELTA=", c.delta), fmt.Sprint("HOLDFAST_HOLD_EXPIRY_DELTA=", c.distance-12)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := settings.Check(); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		// A receiver next door: their LND makes the invoice with its defaults, and the sending LND adds its blocks.
		const asks, adds, height = 80, 3, 800_000
		rules := wrap.Settings{MinOuterCLTV: c.distance + 24}
		outer := rules.OuterCLTV(paidaction.Route{Height: height + asks + adds}, height)
		limit := rules.Probe("", wrap.Facts{}).CLTVLimit
		if possible := outer <= wrap.MaxOuterCLTV && limit > asks+adds; possible == (c.distance > 892) {
			t.Errorf("%+v: the payer's money would be locked for %d blocks, ours for up to %d", c, outer, limit)
		}
	}
}

// The lock leases nodes to payments, so it is needed wherever payments are sent, even if no request waits for another.
func TestTheLockThatPaymentsNeedIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment string
		refused     bool
	}{
		{"HOLDFAST_NODES=a=h:1;tls=t;macaroon=m", true},
		{"HOLDFAST_NODES=a=h:1;tls=t;macaroon=m;send=no", false},
		{"HOLDFAST_NODES=", false},
	} {
		for _, roles := range []string{"worker", "api"} {
			parsed, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, c.environment}, []string{"--no-lock-enabled", "--lock-strategy=redis", "--roles=" + roles})
			if err != nil {
				t.Fatal(err)
			}
			if err := parsed.Check(); (err != nil) != (c.refused && roles == "worker") {
				t.Errorf("%s as %s: %v", c.environment, roles, err)
			}
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	c, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_DATABASE_URL=postgres://u:topsecret@h/d?password=topsecret&sslmode=disable",
		"HOLDFAST_LOCK_REDIS_URL=rediss://:topsecret@h:1/2", "HOLDFAST_LOCK_DIRECT_URL=postgres://u:topsecret@direct/d"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprint(c.Secret, c.DatabaseURL, c.Lock.RedisURL, c.Lock.DirectURL)
	if strings.Contains(shown, "topsecret") || strings.Contains(shown, secret) || !strings.Contains(shown, "sslmode=disable") ||
		!strings.Contains(shown, "h:1/2") || !strings.Contains(shown, "direct/d") {
		t.Error(shown)
	}
}

// A password is hidden wherever an address may contain one, even if the rest is malformed.
func TestPasswordsOfAddressesAreNotShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:topsecret@h/d":                                     "postgres://u:xxxxx@h/d",
		"postgres://h/d?host=/run&sslpassword=topsecret&sslmode=disable": "postgres://h/d?host=/run&sslpassword=xxxxx&sslmode=disable",
		"postgres://h/d?password=topsecret&ssl%70assword=topsecret":      "postgres://h/d?password=xxxxx&ssl%70assword=xxxxx",
		"postgres://h/d?sslpassword=topsecret%zz&connect_timeout=%2":     "postgres://h/d?sslpassword=xxxxx&connect_timeout=%2",
		"postgres://h/d?sslpassword=top;secret":                          "postgres://h/d?sslpassword=xxxxx",
		"postgres://h/d?connect_timeout=1":                               "postgres://h/d?connect_timeout=1",
	} {
		if got := Database(text).String(); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

// psql and pg_dump refuse a parameter that they do not know. What stands in a shell's quotes contains none.
func TestAddressesForTools(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:topsecret@h:5433/d":                                     "'postgres://u@h:5433/d'",
		"postgres://holdfast@/holdfast?host=/var/run/postgresql":              "'postgres://holdfast@/holdfast?host=%2Fvar%2Frun%2Fpostgresql'",
		"postgres://h/d?sslmode=verify-full&password=a&sslpassword=b":         "'postgres://h/d?sslmode=verify-full'",
		"postgres://h/d?pool_max_conns=3&statement_timeout=5&sslmode=disable": "'postgres://h/d?sslmode=disable'",
		"postgres://it's@h/it's?host=/it's":                                   "'postgres://it%27s@h/it%27s?host=%2Fit%27s'",
	} {
		if got := Database(text).ForTools(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	const text = "alice=127.0.0.1:10009;tls=/a/tls.cert;macaroon=/a/m,bob=[::1]:10010;macaroon=/b/m;tls=/b/tls.cert;slots=3," +
		"carol=c:1;tls=t;macaroon=m;send=no,dave=d:1;tls=t;macaroon=m;send=yes"
	var nodes, again, spaced Nodes
	if err := nodes.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := Nodes{
		{"alice", "127.0.0.1:10009", "/a/tls.cert", "/a/m", true, 0}, {"bob", "[::1]:10010", "/b/tls.cert", "/b/m", true, 3},
		{"carol", "c:1", "t", "m", false, 0}, {"dave", "d:1", "t", "m", true, 0},
	}
	if !slices.Equal(nodes, want) {
		t.Errorf("got %+v", nodes)
	}
	if err := again.UnmarshalText([]byte(nodes.String())); err != nil || !slices.Equal(again, want) {
		t.Errorf("read back: %+v, %v", again, err)
	}
	if err := spaced.UnmarshalText([]byte(" " + strings.ReplaceAll(text, ",", ",\n") + " ")); err != nil || !slices.Equal(spaced, want) {
		t.Errorf("with spaces: %+v, %v", spaced, err)
	}
}

// What is given for a node and is none is told as what it is.
func TestWhatIsNoNode(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"alice": "not both a name and an address", "localhost:10009;tls=t;macaroon=m": "not both a name and an address",
		"=localhost:10009;tls=t;macaroon=m": "it has no name", "alice=localhost": "no HOST:PORT", "alice=localhost:1;tls=t": "macaroon is missing",
	} {
		if err := new(Nodes).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A macaroon that was pasted where its path should stand is refused, and not said again, whatever else is wrong.
func TestAMacaroonInPlaceOfItsPathIsNotShown(t *testing.T) {
	t.Parallel()
	for _, macaroon := range []string{"0201036C6E6402F801030a10topsecret", "0201036c6e6402f801030a10topsecret", "AgEDbG5kAvgBAwoQtopsecret=="} {
		for _, rest := range []string{"", ";send=maybe", ";colour=red"} {
			var nodes Nodes
			err := nodes.UnmarshalText([]byte("alice=a:1;tls=t;macaroon=m,bob=b:1;tls=t;macaroon=" + macaroon + rest))
			if err == nil || len(nodes) != 0 || strings.Contains(err.Error(), "topsecret") || !strings.Contains(err.Error(), `"bob"`) || !strings.Contains(err.Error(), "path") {
				t.Errorf("%s%s: %v, %v", macaroon, rest, err, nodes)
			}
		}
	}
}

func TestTheLockCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--no-lock-enabled"}, {"--lock-enabled=false"}, {"--config=" + file(t, `{"lock-enabled": false}`)}} {
		if c, err := parse(t, nil, args); err != nil || c.Lock.Enabled {
			t.Errorf("%v: %+v, %v", args, c.Lock, err)
		}
	}
	if c, err := parse(t, []string{"HOLDFAST_LOCK_ENABLED=false"}, nil); err != nil || c.Lock.Enabled {
		t.Errorf("%+v, %v", c.Lock, err)
	}
}

// Flags want their defaults as text, so these stand in two places: they are the same.
func TestDefaultsOfTheLockAreItsOwn(t *testing.T) {
	t.Parallel()
	c, err := parse(t, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	own := lock.DefaultSettings()
	got := c.Lock.Settings()
	if got.Options != own.Options || got.Heartbeat != own.Heartbeat || got.Missed != own.Missed || got.Poll != own.Poll {
		t.Errorf("%+v, the lock's own are %+v", got, own)
	}
}

func TestTheDefaultsOfSendingAreThePools(t *testing.T) {
	t.Parallel()
	c, err := parse(t, []string{"HOLDFAST_NODES=a=h:1;tls=t;macaroon=m,b=h:2;tls=t;macaroon=m;slots=1,c=h:3;tls=t;macaroon=m;send=no"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Sending.Pool(); got != pool.DefaultSettings() {
		t.Errorf("%+v", got)
	}
	for i, want := range []int{10, 1, 0} {
		if got := c.Slots(c.Nodes[i]); got != want {
			t.Errorf("%s has %d slots, want %d", c.Nodes[i].Name, got, want)
		}
	}
}

func TestThePublicURL(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"https://example.org": "https://example.org", " https://Example.org:8443/ ": "https://example.org:8443", "http://127.0.0.1:8080": "http://127.0.0.1:8080", "": "",
		"example.org": "none", "https://": "none", "ftp://example.org": "none", "https://example.org/pay": "none", "https://u:p@example.org": "none",
		"https://example.org?x=1": "none", "https://example.org#x": "none", "https://%zz": "none", "https://münchen.example": "none",
	} {
		var p Public
		switch err := p.UnmarshalText([]byte(said)); {
		case err == nil && string(p) != want, err != nil && want != "none":
			t.Errorf("%q is read as %q, error %v", said, p, err)
		case want == "" && p.URL() != nil, want != "" && want != "none" && p.URL().String() != want:
			t.Errorf("%q leads to %v", said, p.URL())
		}
	}
	for url, refused := range map[string]bool{"https://example.org": false, "http://example.org": true, "http://abc.onion": false} {
		c, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_PUBLIC_URL=" + url}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "HOLDFAST_PUBLIC_URL") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// An origin that browsers write differently would let nobody in, and nobody would be told why.
func TestOriginsAreWrittenAsBrowsersDo(t *testing.T) {
	t.Parallel()
	for origin, refused := range map[string]bool{
		"https://example.org": false, "http://127.0.0.1:3000": false, "http://[::1]:3000": false, "capacitor://localhost": false,
		"https://a.example,https://b.example:8443": false, "": false,
		"example.org": true, "https://example.org/": true, "https://Example.org": true, "https://example.org:443": true, "http://example.org:80": true,
		"https://example.org:": true, "https://*.example.org": true, "https://ex\u00e4mple.org": true, "*": true, "null": true, "https://u:p@example.org": true, "https://%zz": true,
		"https://a.example,b.example": true,
	} {
		c, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_ORIGINS=" + origin}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "HOLDFAST_ORIGINS") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}

// A wallet that pays for anybody exists only in development, and on no network whose coins are worth something.
func TestTheDemoWallet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment []string
		refused     bool
	}{
		{[]string{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK=simnet"}, false},
		{[]string{"HOLDFAST_DEVELOPMENT=0", "HOLDFAST_NETWORK=simnet"}, true},
		{[]string{"HOLDFAST_DEVELOPMENT=0", "HOLDFAST_NETWORK=mainnet"}, true},
		{[]string{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK=mainnet"}, true},
	} {
		settings, err := parse(t, append(c.environment, "HOLDFAST_SECRET="+secret, "HOLDFAST_DEMO_WALLET=http://127.0.0.1:1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := settings.Check(); (err != nil && strings.Contains(err.Error(), "HOLDFAST_DEMO_WALLET")) != c.refused {
			t.Errorf("%v: %v", c.environment, err)
		}
	}
	for _, url := range []string{"https://127.0.0.1", "127.0.0.1:1", "http://", "http://a:b@127.0.0.1", "unix:/run/wallet"} {
		if _, err := parse(t, []string{"HOLDFAST_DEMO_WALLET=" + url}, nil); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
}
