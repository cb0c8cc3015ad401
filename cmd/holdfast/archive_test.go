package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/archive"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
)

// past is a database with two ranges of five actions each that have long been finished, and a third that grows.
func past(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	for _, sql := range []string{
		`DO $$ DECLARE first_one bigint; BEGIN
			FOR first_one IN DELETE FROM action_range RETURNING first_action LOOP
				EXECUTE format('DROP TABLE %I, %I', 'action_history_' || first_one, 'posting_' || first_one);
			END LOOP; END $$`,
		`SELECT make_action_ranges(5, 2)`,
		`INSERT INTO paid_action (kind, flow, method, state, cost_msat, created_at, changed_at, args, result)
			SELECT 'INVITE', 'BALANCE', 'ZERO_COST', 'PAID', 0, '2025-01-01', '2025-01-01', '{}', '{}' FROM generate_series(1, 12)`,
		`INSERT INTO action_history (action_id, to_state, fact, at) SELECT id, 'PAID', 'REQUESTED', '2025-01-01' FROM paid_action`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// told is the output of holdfast archive.
type told struct {
	DryRun         bool `json:"dry_run"`
	Left, Archived []struct {
		First int64 `json:"first_action"`
		Steps int64
		Then  []string
	}
	Kept *struct {
		First  int64 `json:"first_action"`
		Why    string
		Breaks []struct{ Mend string }
	}
}

func archived(t *testing.T, pool *pgxpool.Pool, wantCode int, args ...string) (got told) {
	t.Helper()
	// An address may have a setting that pg_dump refuses.
	env := settings(pool, "HOLDFAST_DATABASE_URL="+pool.Config().ConnString()+"&default_query_exec_mode=cache_describe")
	code, out, said := command(t, env, append([]string{"archive"}, args...)...)
	if code != wantCode {
		t.Fatalf("archive %v: exit code %d, want %d\n%s%s", args, code, wantCode, out, said)
	}
	if out != "" {
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return got
}

// The advice that archive gives works as it is, once the password is given: the rows are in a file, however often it is
// followed, the tables are gone, and can be brought back.
func TestArchive(t *testing.T) {
	t.Parallel()
	pool := past(t)
	if got := archived(t, pool, exitOK, "--dry-run"); !got.DryRun || len(got.Archived) != 2 || len(got.Archived[0].Then) != 0 || got.Kept == nil {
		t.Errorf("a dry run: %+v", got)
	}
	if got := archived(t, pool, exitOK, "--older-than=876000h"); len(got.Archived) != 0 || got.Kept == nil || got.Kept.First != 1 {
		t.Errorf("of a hundred years: %+v", got)
	}
	archived(t, pool, exitUsage, "--older-than=23h")
	got := archived(t, pool, exitOK)
	if len(got.Left) != 0 || len(got.Archived) != 2 || got.Archived[1].First != 6 || got.Archived[0].Steps != 5 || got.Kept == nil || got.Kept.First != 11 {
		t.Fatalf("%+v", got)
	}
	count := func() (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'archive'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if count() != 4 {
		t.Errorf("%d tables are in the archive, want 4", count())
	}
	dir := t.TempDir()
	shell := func(line string) (ok bool) {
		t.Helper()
		run := exec.CommandContext(t.Context(), "sh", "-c", line)
		run.Dir, run.Env = dir, append(os.Environ(), "PGPASSWORD="+pool.Config().ConnConfig.Password, "DATABASE="+pool.Config().ConnString())
		out, err := run.CombinedOutput()
		t.Logf("%s: %v\n%s", line, err, out)
		return err == nil
	}
	for _, a := range got.Archived {
		// PostgreSQL may fail before it drops the tables, and somebody may give the command once more than is needed.
		undropped, _, _ := strings.Cut(a.Then[0], " && psql")
		if len(a.Then) != 1 || !shell(undropped) || !shell(a.Then[0]) || shell(a.Then[0]) {
			t.Fatal("the command does not work just once")
		}
	}
	if count() != 0 {
		t.Errorf("%d tables are left", count())
	}
	if got := archived(t, pool, exitOK); len(got.Left) != 0 {
		t.Errorf("commands for what is dropped: %+v", got.Left)
	}
	restored := shell(`pg_restore --dbname "$DATABASE" actions_1_5.dump`)
	var steps int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM archive.action_history_1`).Scan(&steps); err != nil || !restored || steps != 5 || count() != 2 {
		t.Errorf("%d steps came back, in %d tables, %v", steps, count(), err)
	}
	code, out, said := command(t, settings(pool), "actions", "show", "3")
	var whole struct {
		Archived bool
		History  []struct{}
	}
	if err := json.Unmarshal([]byte(out), &whole); err != nil || code != exitOK || !whole.Archived || len(whole.History) != 0 {
		t.Errorf("what is shown of an archived action: exit code %d, %v\n%s%s", code, err, out, said)
	}
}

// Whoever archived may not have seen the commands: it was broken off between two ranges, or its output was. They are
// told again by each call, until the tables are dropped.
func TestWhatIsArchivedIsToldUntilItIsDropped(t *testing.T) {
	t.Parallel()
	pool := past(t)
	missed := archived(t, pool, exitOK).Archived
	for _, args := range [][]string{{"--dry-run"}, nil} {
		if got := archived(t, pool, exitOK, args...); len(got.Archived) != 0 || !reflect.DeepEqual(got.Left, missed) {
			t.Errorf("archive %v: %+v, want %+v", args, got, missed)
		}
	}
	if _, err := pool.Exec(t.Context(), `DROP TABLE archive.action_history_1, archive.posting_1`); err != nil {
		t.Fatal(err)
	}
	if got := archived(t, pool, exitOK); !reflect.DeepEqual(got.Left, missed[1:]) {
		t.Errorf("with the first range dropped: %+v, want %+v", got.Left, missed[1:])
	}
	if out := onTerminal(t, pool, archiveCommand{OlderThan: archive.MinAge}); !strings.Contains(out, "from 6 to 10 were archived before") ||
		!strings.Contains(out, missed[1].Then[0]) {
		t.Errorf("on a terminal:\n%s", out)
	}
}

// What was given back by hand since an action was archived is shown, on a terminal too: nobody gives it back once more.
func TestWhatIsGivenBackAfterwardsIsShown(t *testing.T) {
	t.Parallel()
	pool := past(t)
	archived(t, pool, exitOK)
	show := func() string {
		t.Helper()
		return onTerminal(t, pool, actionsShow{ID: 3})
	}
	if out := show(); !strings.Contains(out, "archived") || strings.Contains(out, "REASON") {
		t.Errorf("with nothing booked since:\n%s", out)
	}
	if _, err := pool.Exec(t.Context(), `INSERT INTO posting (action_id, from_account, to_account, msat, reason, at) VALUES (3, 1, 5, 7, 'given back by hand', now()), (3, 5, 1, 7, 'put right by hand', now())`); err != nil {
		t.Fatal(err)
	}
	if out := show(); !strings.Contains(out, "archived") || !strings.Contains(out, "given back by hand") || strings.Contains(out, "FACT") {
		t.Errorf("with something booked since:\n%s", out)
	}
}

// What reconcile finds is reported together with what to do, as by reconcile itself, and by the exit code.
func TestNothingBrokenIsArchived(t *testing.T) {
	t.Parallel()
	pool := past(t)
	if _, err := pool.Exec(t.Context(), `UPDATE account SET balance = 5 WHERE id = 8`); err != nil {
		t.Fatal(err)
	}
	if got := archived(t, pool, exitFound); len(got.Archived) != 0 || got.Kept == nil || len(got.Kept.Breaks) == 0 || got.Kept.Breaks[0].Mend == "" {
		t.Errorf("%+v", got)
	}
}

// What could not be archived is not taken for done.
func TestAnArchiveThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if _, err := pool.Exec(t.Context(), `ALTER FUNCTION newest_action() RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	if code, _, said := command(t, settings(pool), "archive"); code != exitFailed || !strings.Contains(said, "find the oldest range") {
		t.Errorf("exit code %d\n%s", code, said)
	}
}

// A worker makes partitions by itself, and logs it.
func TestTheServiceMakesPartitions(t *testing.T) {
	t.Parallel()
	pool := past(t)
	s := serve(t, settings(pool))
	s.await("partitions", func() bool { return strings.Contains(s.said(), "partitions were made for the actions to come") })
	var last int64
	if err := pool.QueryRow(t.Context(), `SELECT max(last_action) FROM action_range`).Scan(&last); err != nil || last < 2*archive.RangeSize {
		t.Errorf("up to action %d, %v", last, err)
	}
}
