package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/config"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgbouncer"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
	"github.com/a-seed-a7aed72f/holdfast/operator"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"--help": exitOK, "serve --help": exitOK, "": exitUsage, "dance": exitUsage, "serve --loud": exitUsage,
		"migrate force 0046": exitUsage, "serve --max-pending 0100": exitUsage, "actions give-up 0x10 --yes": exitUsage} {
		if code, out, said := command(t, nil, strings.Fields(args)...); code != want || out+said == "" {
			t.Errorf("holdfast %s: exit code %d, want %d\n%s%s", args, code, want, out, said)
		}
	}
	for value, want := range map[string]int{"0100": exitUsage, "100": exitOK} {
		if code, _, said := command(t, []string{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_NETWORK=regtest", "HOLDFAST_MAX_PENDING=" + value}, "config", "print"); code != want {
			t.Errorf("HOLDFAST_MAX_PENDING=%s: exit code %d, want %d\n%s", value, code, want, said)
		}
	}
}

// A command's own flags are not lost among the settings; the settings are all in the help of serve.
func TestHelpIsOfTheCommand(t *testing.T) {
	t.Parallel()
	for args, own := range map[string]string{"--help": "actions stuck", "actions write-off --help": "--reason", "reconcile --help": "--since", "nodes --help": "nodes drain"} {
		if _, out, _ := command(t, nil, strings.Fields(args)...); !strings.Contains(out, own) || !strings.Contains(out, "--database-url") ||
			!strings.Contains(out, "serve --help") || strings.Contains(out, "--max-pending") {
			t.Errorf("holdfast %s:\n%s", args, out)
		}
	}
	if _, out, _ := command(t, nil, "serve", "--help"); !strings.Contains(out, "--max-pending") || !strings.Contains(out, "--lock-ttl") ||
		!strings.Contains(out, "HOLDFAST_MAX_PENDING") {
		t.Errorf("serve has not all settings:\n%s", out)
	}
}

// A refusal names what it is about.
func TestRefusalsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--config /not/there actions list": "holdfast: read the settings: open /not/there",
		"actions list --limit 0":           "holdfast: refused arguments: --limit",
		"relay list --limit=-1":            "holdfast: refused arguments: --limit",
		"locks --limit 0":                  "holdfast: refused arguments: --limit",
		"serve --secret=":                  "holdfast: refused settings:",
	} {
		if code, _, said := command(t, nil, strings.Fields(args)...); code != exitUsage || !strings.HasPrefix(said, want) {
			t.Errorf("holdfast %s: exit code %d, %s", args, code, said)
		}
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("5a", 32)
	code, out, said := command(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_DATABASE_URL=postgres://u:topsecret@h/d"},
		"config", "print", "--max-pending=7")
	var values map[string]any
	if err := json.Unmarshal([]byte(out), &values); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	if values["max-pending"] != 7.0 || values["invoice-expiry"] != "10m0s" || values["database-url"] != "postgres://u:xxxxx@h/d" || values["secret"] != "(set)" {
		t.Errorf("%v", values)
	}
	if strings.Contains(out+said, "topsecret") || strings.Contains(out+said, secret) {
		t.Error("a secret is shown")
	}
	if code, out, said := command(t, nil, "config", "print"); code != exitUsage || !strings.Contains(said, "HOLDFAST_SECRET") || !strings.Contains(out, "max-pending") {
		t.Errorf("what serve would refuse: exit code %d\n%s", code, said)
	}
}

// Who names what is not there is told where to look (spec 00 §0.2).
func TestWhatIsNotThereIsNamedWithWhereToLook(t *testing.T) {
	t.Parallel()
	env := settings(pgtest.New(t))
	if code, _, said := command(t, env, "users", "add", "alice"); code != exitOK {
		t.Fatal(said)
	}
	for args, want := range map[string]string{
		"actions show 99":             "there is no action 99: holdfast actions list",
		"actions requeue 99":          "there is no action 99: holdfast actions list",
		"relay show 99":               "action 99 has no outgoing payment: holdfast relay list",
		"relay requeue 99":            "action 99 has no outgoing payment: holdfast relay list",
		"users keys bob":              `there is no user "bob": holdfast users add`,
		"users revoke 99":             "there is no such key, or it was already revoked: holdfast users keys",
		"users unlink alice 02abcdef": "no wallet of alice has this key: holdfast users wallets alice",
		"users key bob --scopes READ": `there is no user "bob": holdfast users add`,
		"users trust bob 1":           `there is no user "bob": holdfast users add`,
		"webhooks enable 99":          "there is no webhook 99: holdfast webhooks list",
		"webhooks rotate 99":          "there is no webhook 99: holdfast webhooks list",
		"webhooks remove 99":          "there is no webhook 99: holdfast webhooks list",
		"nodes drain mallory":         `There is no node "mallory": no process has ever used it. holdfast nodes`,

		"actions write-off 99 --reason lost --yes": "there is no action 99: holdfast actions list",
	} {
		if code, _, said := command(t, env, strings.Fields(args)...); code != exitFailed || !strings.HasPrefix(said, "holdfast: "+want) {
			t.Errorf("holdfast %s: exit code %d, %s", args, code, said)
		}
	}
}

// A refusal is a sentence here, without the code by which the API's callers know it: programs go by the exit code.
func TestRefusalsAreSentences(t *testing.T) {
	t.Parallel()
	env := settings(pgtest.New(t))
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"users add alice", "", exitOK},
		{"users add alice", "holdfast: The name alice is taken.", exitFailed},
		{"users add Alice", "holdfast: refused arguments: A name has", exitUsage},
		{"users key alice --scopes NONE", "holdfast: refused arguments: Say what the key allows", exitUsage},
		{"webhooks add ftp://operator.example", "holdfast: refused arguments: This address cannot be called", exitUsage},
	} {
		if code, _, said := command(t, env, strings.Fields(c.args)...); code != c.code || !strings.HasPrefix(said, c.want) {
			t.Errorf("holdfast %s: exit code %d, %s", c.args, code, said)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	step := func(wantVersion uint, args ...string) {
		t.Helper()
		code, out, said := command(t, env, append([]string{"migrate"}, args...)...)
		var got struct {
			Version, Latest uint
			Dirty           bool
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || got.Version != wantVersion || got.Latest != latest || got.Dirty {
			t.Errorf("migrate %v: exit code %d, %+v, %v\n%s", args, code, got, err, said)
		}
	}
	names, err := filepath.Glob("../../migrations/*.up.sql")
	if err != nil || len(names) < 2 {
		t.Fatalf("%v, %v", names, err)
	}
	var before uint // numbers may have gaps
	if _, err := fmt.Sscanf(filepath.Base(names[len(names)-2]), "%d_", &before); err != nil {
		t.Fatal(err)
	}
	step(latest, "version")
	step(latest, "up")
	for _, args := range [][]string{{"down"}, {"down", "--steps=2"}, {"down", "--all"}} {
		if code, _, said := command(t, env, append([]string{"migrate"}, args...)...); code != exitUsage || !strings.Contains(said, "--yes") {
			t.Errorf("%v without --yes: exit code %d\n%s", args, code, said)
		}
		step(latest, "version")
	}
	if code, _, said := command(t, env, "migrate", "down", "--steps=1", "--all", "--yes"); code != exitUsage {
		t.Errorf("some and all: exit code %d\n%s", code, said)
	}
	step(latest, "version")
	step(before, "down", "--yes")
	code, _, said := command(t, env, "serve")
	if code != exitFailed || !strings.Contains(said, "holdfast migrate up") {
		t.Errorf("serve on an old schema: exit code %d\n%s", code, said)
	}
	step(0, "down", "--all", "--yes")
	if code, _, said = command(t, env, "serve"); code != exitFailed || !strings.Contains(said, "holdfast migrate up") {
		t.Errorf("serve on an empty database: exit code %d\n%s", code, said)
	}
	step(latest, "up")
	if _, err := pool.Exec(t.Context(), "UPDATE schema_migrations SET dirty = true"); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"migrate", "version"}} {
		if code, _, said = command(t, env, args...); code != exitFailed || !strings.Contains(said, "migrate force") {
			t.Errorf("%v on a half-migrated database: exit code %d\n%s", args, code, said)
		}
	}
	step(latest, "force", fmt.Sprint(latest))
	if _, err := pool.Exec(t.Context(), "UPDATE schema_migrations SET version = version + 1"); err != nil {
		t.Fatal(err)
	}
	if code, _, said = command(t, env, "serve"); code != exitFailed || !strings.Contains(said, "newer program") {
		t.Errorf("serve on a newer schema: exit code %d\n%s", code, said)
	}
	for _, way := range [][]string{{"up"}, {"down", "--yes"}} {
		if code, _, said = command(t, env, append([]string{"migrate"}, way...)...); code != exitFailed || !strings.Contains(said, "newer program") {
			t.Errorf("%v from a newer schema: exit code %d\n%s", way, code, said)
		}
	}
	if _, err := pool.Exec(t.Context(), "UPDATE schema_migrations SET version = version - 1"); err != nil {
		t.Fatal(err)
	}
	if code, _, said = command(t, env, "migrate", "down", "--steps=1000", "--yes"); code != exitUsage || !strings.Contains(said, "1000 were to be taken back") {
		t.Errorf("more steps than there are: exit code %d\n%s", code, said)
	}
	step(latest, "version")
	if code, _, _ = command(t, env, "migrate", "down", "--steps=0", "--yes"); code != exitUsage {
		t.Errorf("zero steps: exit code %d", code)
	}
}

// createdb makes such a database where PostgreSQL was installed without a locale.
func TestADatabaseThatIsNotInUTF8IsRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	for _, encoding := range []string{"SQL_ASCII", "LATIN1"} {
		pgtest.Encode(t, pool, encoding)
		for _, args := range [][]string{{"migrate", "up"}, {"migrate", "version"}, {"serve"}} {
			if code, _, said := command(t, env, args...); code != exitFailed || !strings.Contains(said, encoding) || !strings.Contains(said, "createdb --encoding UTF8") {
				t.Errorf("%v in %s: exit code %d\n%s", args, encoding, code, said)
			}
		}
	}
}

// What people have paid for, and the books, are in tables that the first migrations made. No way down destroys them; those
// that leave them as they are stay open.
func TestWhatWasPaidForIsNotMigratedAway(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	if _, err := pool.Exec(t.Context(), `INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args)
		VALUES ('DONATE', 'BALANCE', 'FEE_CREDIT', 'PAID', 1000, now(), now(), '{}')`); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../migrations/*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0 // the migrations that can be taken back
	for _, name := range names {
		if filepath.Base(name) >= "0036" {
			kept++
		}
	}
	version := func() (uint, bool) {
		t.Helper()
		version, dirty, err := migrations.Version(t.Context(), pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		return version, dirty
	}
	refused := func(args ...string) {
		t.Helper()
		before, _ := version()
		code, _, said := command(t, env, append([]string{"migrate", "down", "--yes"}, args...)...)
		if after, dirty := version(); code != exitUsage || !strings.Contains(said, "drop it") || after != before || dirty {
			t.Errorf("%v: exit code %d, from %d to %d\n%s", args, code, before, after, said)
		}
	}
	refused("--all")
	refused(fmt.Sprintf("--steps=%d", kept+1))
	if code, _, said := command(t, env, "migrate", "down", "--yes", fmt.Sprintf("--steps=%d", kept)); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	refused()
	refused("--all")
	if code, _, said := command(t, env, "migrate", "up"); code != exitOK {
		t.Errorf("exit code %d\n%s", code, said)
	}
	var actions int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM paid_action").Scan(&actions); err != nil || actions != 1 {
		t.Errorf("%d actions, %v", actions, err)
	}
}

// Whoever gives the command once more while the first is under way, such as in another shell or after a lost connection,
// means the same step, and has seen the same version. So has the guard on what was paid for.
func TestAWayDownGivenTwiceIsGoneOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	version := func() (uint, bool) {
		t.Helper()
		version, dirty, err := migrations.Version(t.Context(), pool.Config().ConnString())
		if err != nil {
			t.Fatal(err)
		}
		return version, dirty
	}
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(t.Context()) //nolint:errcheck // it may have ended
	if _, err := reader.Exec(t.Context(), "LOCK TABLE schema_migrations IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	type end struct {
		code int
		said string
	}
	latest, _ := version()
	var ends [2]chan end
	for i := range ends {
		ends[i] = make(chan end, 1)
		go func() {
			code, out, said := command(t, env, "migrate", "down", "--yes")
			ends[i] <- end{code, out + said}
		}()
		for waiting := 0; waiting <= i; { // the first for the reader, the second for the lock of migrations
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks
				WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND NOT granted`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := reader.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first := <-ends[0]; first.code != exitOK {
		t.Errorf("the first: exit code %d\n%s", first.code, first.said)
	}
	before, _ := version()
	moved := fmt.Sprintf("the database has moved meanwhile, from version %d to %d, and nothing was taken back: see with holdfast migrate version", latest, before)
	if second := <-ends[1]; second.code != exitFailed || !strings.Contains(second.said, moved) {
		t.Errorf("the second: exit code %d\n%s", second.code, second.said)
	}
	if after, dirty := version(); before == latest || after != before || dirty {
		t.Errorf("from version %d to %d, and then to %d (dirty: %t)", latest, before, after, dirty)
	}
}

// What a command destroys, and its confirmation, must be given where it is called: neither a variable left behind nor
// the settings file can.
func TestACommandsOwnFlagsComeFromTheCommandLine(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	for variable, args := range map[string]string{
		"HOLDFAST_ALL=true": "migrate down", "HOLDFAST_STEPS=40": "migrate down", "HOLDFAST_YES=true": "actions write-off 1 --reason=lost",
		"HOLDFAST_REASON=none": "nodes disable alice --reason=own", "HOLDFAST_LIMIT=0": "actions list",
	} {
		name, _, _ := strings.Cut(variable, "=")
		if code, _, said := command(t, append(settings(pool), variable), strings.Fields(args)...); code != exitUsage || !strings.Contains(said, name+" is no setting") {
			t.Errorf("%s with %s: exit code %d\n%s", args, variable, code, said)
		}
	}
	for args, flag := range map[string]string{"actions write-off 1 --reason=lost": "--yes", "nodes disable alice": "--reason"} {
		if code, _, said := command(t, env, strings.Fields(args)...); code != exitUsage || !strings.Contains(said, flag) {
			t.Errorf("%s without %s: exit code %d\n%s", args, flag, code, said)
		}
	}
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"all": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := command(t, env, "--config", file, "migrate", "down"); code != exitUsage || !strings.Contains(said, `unknown key "all"`) {
		t.Errorf("a file that says all: exit code %d\n%s", code, said)
	}
	if code, _, said := command(t, env, "migrate", "down", "--yes"); code != exitOK {
		t.Errorf("down: exit code %d\n%s", code, said)
	}
	if version, _, err := migrations.Version(t.Context(), pool.Config().ConnString()); err != nil || version == 0 || version == latest {
		t.Errorf("version %d after one step down from %d, %v", version, latest, err)
	}
}

// A version that no migration leads to would be recorded as the database's, and nothing would run on it, not even the
// way back.
func TestOnlyAVersionThatExistsIsForced(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	for _, unknown := range []string{"9999", "21", "-1"} { // numbers have gaps: 20 is followed by 30
		if code, _, said := command(t, env, "migrate", "force", "--yes", "--", unknown); code != exitUsage || !strings.Contains(said, unknown+" is none of this program's migrations") {
			t.Errorf("%s: exit code %d\n%s", unknown, code, said)
		}
	}
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if version, _, err := migrations.Version(t.Context(), pool.Config().ConnString()); err != nil || version != latest {
		t.Errorf("version %d, want %d, %v", version, latest, err)
	}
	// If a database is not dirty its version is known: forcing a different one is a slip, unless it is confirmed.
	for yes, want := range map[string]int{"--yes=false": exitUsage, "--yes": exitOK} {
		code, _, said := command(t, env, "migrate", "force", "20", yes)
		version, _, err := migrations.Version(t.Context(), pool.Config().ConnString())
		if err != nil || code != want || (version == 20) != (want == exitOK) || (code == exitUsage) != strings.Contains(said, "--yes") {
			t.Errorf("force %s: exit code %d, version %d, %v\n%s", yes, code, version, err, said)
		}
		if code, _, said := command(t, env, "migrate", "force", "--yes", fmt.Sprint(latest)); code != exitOK {
			t.Errorf("back: exit code %d\n%s", code, said)
		}
	}
	for _, args := range [][]string{{"down", "--all", "--yes"}, {"force", "0"}, {"up"}} {
		if code, _, said := command(t, env, append([]string{"migrate"}, args...)...); code != exitOK {
			t.Errorf("%v of an empty database: exit code %d\n%s", args, code, said)
		}
	}
}

// Through a pooler in transaction mode the migrations' lock would stay behind on a connection of the server. So
// migrations bypass the pooler, or are refused.
func TestMigrationsGoPastAPooler(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	pooled := append(settings(pool), "HOLDFAST_DATABASE_URL="+pgbouncer.Start(t, pool))
	if code, _, said := command(t, pooled, "migrate", "up"); code != exitFailed || !strings.Contains(said, "HOLDFAST_LOCK_DIRECT_URL") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	for range 2 { // on the same connection of the server
		if code, _, said := command(t, pooled, "migrate", "version"); code != exitOK {
			t.Errorf("the version: exit code %d\n%s", code, said)
		}
	}
	direct := append(pooled, "HOLDFAST_LOCK_DIRECT_URL="+pool.Config().ConnString())
	for _, args := range [][]string{{"down", "--yes"}, {"up"}} {
		if code, _, said := command(t, direct, append([]string{"migrate"}, args...)...); code != exitOK {
			t.Errorf("%v past it: exit code %d\n%s", args, code, said)
		}
	}
}

func TestActionsAreListedShownAndRequeued(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	past := func() time.Time { return time.Now().Add(-time.Hour) }
	node := simnode.New("sim", past)
	e := engine(t, pool, simnode.Nodes{node}, past)
	if code, out, _ := command(t, env, "actions", "stuck"); code != exitOK || out != "[]\n" {
		t.Errorf("nothing is stuck: exit code %d, %s", code, out)
	}
	pa, err := e.Pay(t.Context(), donation)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		ID    int64
		State string
	}
	for _, args := range []string{"list", "list --state=PENDING_HELD", "stuck"} {
		code, out, said := command(t, env, append([]string{"actions"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].ID != pa.ID || list[0].State != "PENDING_HELD" ||
			(code == exitFound) != (args == "stuck") {
			t.Errorf("actions %s: exit code %d, %v\n%s%s", args, code, err, out, said)
		}
	}
	for args, want := range map[string]int{"list --state=PAID": exitOK, "stuck --grace=2h": exitOK, "list --before=1": exitOK, "list --state=GONE": exitUsage, "list --limit=0": exitUsage, "stuck --limit=0": exitUsage, "show 99": exitFailed, "requeue 99": exitFailed} {
		if code, out, said := command(t, env, append([]string{"actions"}, strings.Fields(args)...)...); code != want || strings.Contains(out, "PENDING") {
			t.Errorf("actions %s: exit code %d, want %d\n%s%s", args, code, want, out, said)
		}
	}
	id := fmt.Sprint(pa.ID)
	code, out, _ := command(t, env, "actions", "show", id)
	var whole struct {
		ID          int64
		PaymentHash string `json:"payment_hash"`
		History     []struct{ To, Fact string }
	}
	if err := json.Unmarshal([]byte(out), &whole); err != nil || code != exitOK || whole.ID != pa.ID ||
		whole.PaymentHash != pa.Invoice.Hash.String() || len(whole.History) != 1 || whole.History[0].Fact != "REQUESTED" {
		t.Errorf("actions show: exit code %d, %v\n%s", code, err, out)
	}
	if strings.Contains(out, "preimage") {
		t.Error("the preimage is shown")
	}
	if !strings.Contains(out, `"postings": []`) {
		t.Errorf("what nothing was booked for has no list of postings:\n%s", out)
	}
	if code, _, said := command(t, env, "actions", "requeue", id); code != exitOK {
		t.Errorf("actions requeue: exit code %d\n%s", code, said)
	}
	var jobs int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM river_job WHERE state = 'available' AND args->>'action' = $1", id).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("%d jobs: %v", jobs, err)
	}
	// An action that waits for its payer gets its job for the deadline back. That is reconcile's advice for an action
	// without a job.
	if _, err := pool.Exec(t.Context(), "DELETE FROM river_job"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE paid_action SET deadline = now() + interval '1 hour' WHERE id = $1", pa.ID); err != nil {
		t.Fatal(err)
	}
	if code, _, said := command(t, env, "actions", "requeue", id); code != exitOK {
		t.Errorf("actions requeue: exit code %d\n%s", code, said)
	}
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM river_job JOIN paid_action ON paid_action.id = (river_job.args->>'action')::bigint
		WHERE river_job.state = 'scheduled' AND scheduled_at = deadline AND river_job.kind = 'advance'`).Scan(&jobs); err != nil || jobs != 1 {
		t.Errorf("%d jobs at the deadline: %v", jobs, err)
	}
}

// An action whose payer cancelled it, but whose invoice was paid before the node knew, did not fail.
func TestWhatIsPaidHasNotFailed(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	pa, err := engine(t, pool, simnode.Nodes{simnode.New("sim", time.Now)}, time.Now).Pay(t.Context(), donation)
	if err != nil {
		t.Fatal(err)
	}
	for _, failed := range []bool{true, false} {
		change := `UPDATE paid_action SET failure_code = 'CANCELED', failure_message = 'You cancelled the payment.', state = 'HELD' WHERE id = $1`
		if !failed {
			change = `UPDATE paid_action SET state = 'PAID', result = '{}', deadline = NULL WHERE id = $1`
		}
		if _, err := pool.Exec(t.Context(), change, pa.ID); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{"list", "show " + fmt.Sprint(pa.ID)} {
			code, out, said := command(t, env, append([]string{"actions"}, strings.Fields(args)...)...)
			if code != exitOK || (strings.Contains(out, "CANCELED") || strings.Contains(out, "You cancelled")) != failed {
				t.Errorf("actions %s, failed %t: exit code %d\n%s%s", args, failed, code, out, said)
			}
		}
	}
}

// An operator who looks at a held payment sees until when and to which height it is safe, and in which time zone. Of an
// action that waits for payment nobody reads that it was paid.
func TestShowForPeople(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	alice, _, err := graph.SignUp(t.Context(), pool, "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	asked := donation
	asked.Caller = paidaction.Caller{User: &alice}
	pa, err := engine(t, pool, simnode.Nodes{simnode.New("sim", time.Now)}, time.Now).Pay(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []string{`UPDATE paid_action SET state = 'HELD', deadline_height = 812345, deadline = '2026-01-02 03:04:05Z' WHERE id = $1`,
		`UPDATE invoice SET received_msat = 5001 WHERE action_id = $1`,
		`INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES ($1, 3, 5, 7, 'donation', now())`} {
		if _, err := pool.Exec(t.Context(), change, pa.ID); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	e := &environment{out: &out, log: slog.New(slog.DiscardHandler), config: &config.Config{DatabaseURL: config.Database(pool.Config().ConnString()), DatabasePool: 4}}
	if err := (actionsShow{ID: pa.ID}).Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`deadline +2026-01-02 03:04:05Z`, `safety height +812345`, `method +PESSIMISTIC`, `flow +PESSIMISTIC`, `cost +5000 msat`, `received +5001 msat`,
		`[-0-9]+ [:0-9]+Z +- +PENDING_HELD +REQUESTED`, `7 +\S+ credits +\S+ credits +donation`, fmt.Sprintf(`payer +%d, alice`, alice)} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(out.String()) {
			t.Errorf("it does not say %q:\n%s", line, &out)
		}
	}
	if strings.Contains(out.String(), "paid by") {
		t.Errorf("it is not paid:\n%s", &out)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &environment{out: &out}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	rows := []operator.Action{{ID: 7, Kind: "ZAP", Flow: "WRAPPED", State: "HELD", Attempt: 2, PayerID: new(int64(9)), CostMsat: 1000, Deadline: &at, ChangedAt: at.Add(-time.Minute)},
		{ID: 6, Kind: "ZAP", Flow: "BALANCE", State: "FAILED", Attempt: 1, CostMsat: 2000, ChangedAt: at, FailureCode: new("EXPIRED")}}
	if err := printActions(e, rows); err != nil {
		t.Fatal(err)
	}
	const want = `
ID  KIND  FLOW     STATE   ATTEMPT  PAYER  COST (msat)  DEADLINE              CHANGED               FAILURE
7   ZAP   WRAPPED  HELD    2        9      1000         2026-01-02 03:04:05Z  2026-01-02 03:03:05Z  -
6   ZAP   BALANCE  FAILED  1        -      2000         -                     2026-01-02 03:04:05Z  EXPIRED
`
	if "\n"+out.String() != want {
		t.Errorf("got\n%s\nwant%s", &out, want)
	}
}

// onTerminal is what a command says on a terminal.
func onTerminal(t *testing.T, pool *pgxpool.Pool, command interface {
	Run(context.Context, *environment) error
}) string {
	t.Helper()
	var out strings.Builder
	e := &environment{out: &out, log: slog.New(slog.DiscardHandler),
		config: &config.Config{DatabaseURL: config.Database(pool.Config().ConnString()), DatabasePool: 4}}
	if err := command.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
