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
	environment := []string{"HOLDFAST_CONFIG=" + path, "HOLDFAST_MAX_PENDING=10", "HOLDFAST_LISTEN=127.0.0.1:30", "HOLDFAST_NODES=", "OTHER=1"}
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
		"node twice":        {"--nodes=a=h:1;tls=a;macaroon=b a=h:2;tls=a;macaroon=b"},
		"level":             {"--log-level=shout"},
		"no file":           {"--config=" + filepath.Join(t.TempDir(), "none")},
		"no JSON":           {"--config=" + file(t, "max-pending: 3")},
		"misspelt key":      {"--config=" + file(t, `{"max_pendin": 3}`)},
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

func TestImpossibleCombinations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ env, word string }{
		{"HOLDFAST_SECRET=", "HOLDFAST_SECRET"},
		{"HOLDFAST_SECRET=abcd", "32"},
		{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK"},
		{"HOLDFAST_ROLES=listener", "HOLDFAST_NODES"},
		{"HOLDFAST_DATABASE_POOL=3", "HOLDFAST_DATABASE_POOL"},
		{"HOLDFAST_CLTV_DELTA=53", "HOLDFAST_CLTV_DELTA to 54"},
		{"HOLDFAST_SAFETY_BLOCKS=50", "HOLDFAST_CLTV_DELTA to 92"},
		{"HOLDFAST_INVOICE_EXPIRY=1ms", "HOLDFAST_INVOICE_EXPIRY"},
		{"HOLDFAST_MAX_PENDING=0", "HOLDFAST_MAX_PENDING"},
	} {
		parsed, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, c.env}, nil)
		if err != nil {
			t.Errorf("%s: %v", c.env, err)
			continue
		}
		if err := parsed.Check(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.env, err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	c, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_DATABASE_URL=postgres://u:topsecret@h/d?password=topsecret&sslmode=disable"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprint(c.Secret, c.DatabaseURL)
	if strings.Contains(shown, "topsecret") || strings.Contains(shown, secret) || !strings.Contains(shown, "sslmode=disable") {
		t.Error(shown)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	const text = "alice=127.0.0.1:10009;tls=/a/tls.cert;macaroon=/a/m,bob=[::1]:10010;macaroon=/b/m;tls=/b/tls.cert"
	var nodes, again, spaced Nodes
	if err := nodes.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	want := Nodes{{"alice", "127.0.0.1:10009", "/a/tls.cert", "/a/m"}, {"bob", "[::1]:10010", "/b/tls.cert", "/b/m"}}
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
