package migrations_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	pgxmigrate "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// dump is the schema as text: every table's columns, constraints, indexes, triggers and every function and type.
func dump(t *testing.T, pool interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) string {
	t.Helper()
	rows, err := pool.Query(context.Background(), `
		SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
		FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'schema_migrations'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'schema_migrations'
		UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
			WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'schema_migrations'
		UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
		UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
		UNION ALL SELECT typname || ' ' || (SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)
			FROM pg_type t WHERE typnamespace = 'public'::regnamespace AND typtype = 'e'
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// down takes back the last migration.
func down(ctx context.Context, dsn string) error {
	version, _, err := migrations.Version(ctx, dsn)
	if err != nil {
		return err
	}
	return migrations.Down(ctx, dsn, version, 1)
}

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if v, dirty, err := migrations.Version(ctx, dsn); err != nil || v != latest || dirty {
		t.Fatalf("version %d, dirty %t, error %v; want %d", v, dirty, err, latest)
	}
	full := dump(t, pool)
	// One by one, so that each way down is the exact reverse of its way up. Numbers may have gaps.
	for v := latest; v > 0; {
		if err := down(ctx, dsn); err != nil {
			t.Fatal(err)
		}
		if v, _, err = migrations.Version(ctx, dsn); err != nil {
			t.Fatal(err)
		}
	}
	if left := dump(t, pool); left != "" {
		t.Errorf("after all the way down there is still:\n%s", left)
	}
	if v, _, err := migrations.Version(ctx, dsn); err != nil || v != 0 {
		t.Errorf("version %d after all the way down, error %v", v, err)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
	if again := dump(t, pool); again != full {
		t.Error("the schema differs after down and up")
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Errorf("up with nothing to do: %v", err)
	}
}

func TestForceMendsADirtyVersion(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	if _, err := pool.Exec(ctx, `UPDATE schema_migrations SET dirty = true`); err != nil {
		t.Fatal(err)
	}
	latest, _ := migrations.Latest()
	for way, err := range map[string]error{"up": migrations.Up(ctx, dsn), "down": down(ctx, dsn)} {
		if err == nil || err.Error() != migrations.Mend(latest) {
			t.Errorf("%s on a dirty database, which is to say what to do: %v", way, err)
		}
	}
	if err := migrations.Force(ctx, dsn, int(latest)); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(ctx, dsn); err != nil {
		t.Fatal(err)
	}
}

// What bounds the service's statements, at the role or in the address, stops no migration, however long it takes or waits.
func TestMigrationsAreNotBounded(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	if err := down(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(t.Context())
	if _, err := reader.Exec(t.Context(), "LOCK TABLE sign_in IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `DO $$ BEGIN
		EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET statement_timeout = 200', current_database());
		EXECUTE format('ALTER ROLE CURRENT_USER IN DATABASE %I SET idle_in_transaction_session_timeout = 200', current_database());
	END $$`); err != nil {
		t.Fatal(err)
	}
	bounded, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	query := bounded.Query()
	query.Set("lock_timeout", "200")
	bounded.RawQuery = query.Encode()
	up := make(chan error, 1)
	go func() { up <- migrations.Up(context.WithoutCancel(t.Context()), bounded.String()) }()
	if _, err := reader.Exec(t.Context(), "SELECT pg_sleep(1)"); err != nil {
		t.Fatal(err)
	}
	if err := reader.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-up; err != nil {
		t.Error(err)
	}
}

// Whoever migrates has golang-migrate's own lock. It is waited for, though not for ever, and who has it is said; the version can be asked all the while.
func TestTheLockIsNotWaitedForWithoutAnEnd(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	dsn := pool.Config().ConnString()
	other, err := (&pgxmigrate.Postgres{}).Open("pgx5" + strings.TrimPrefix(dsn, "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := migrations.OpenWithin(t.Context(), dsn, 100*time.Millisecond); !errors.Is(err, migrations.ErrLocked) ||
		!strings.Contains(err.Error(), "see with holdfast migrate version") || !strings.Contains(err.Error(), "pg_terminate_backend(") {
		t.Error(err)
	}
	if _, _, err := migrations.Version(t.Context(), dsn); err != nil {
		t.Error(err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is given back
		if err := migrations.OpenWithin(t.Context(), dsn, 10*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// A server that accepts a connection and stays silent is given up.
func TestASilentServerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dsn := "postgres://" + silent.Addr().String() + "/holdfast?sslmode=disable"
	ends := make(chan error, 2)
	go func() { ends <- migrations.Up(context.WithoutCancel(t.Context()), dsn) }()
	go func() {
		_, _, err := migrations.Version(context.WithoutCancel(t.Context()), dsn)
		ends <- err
	}()
	for range cap(ends) {
		select {
		case err := <-ends:
			if err == nil {
				t.Error("it answered")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it is waited for")
		}
	}
}

// contested says whether migration 46 is there, and whether the version says the same.
func contested(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	var there bool
	if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'sign_in'::regclass AND attname = 'contested_at')`).Scan(&there); err != nil {
		t.Fatal(err)
	}
	version, dirty, err := migrations.Version(t.Context(), pool.Config().ConnString())
	if err != nil || dirty || (version >= 46) != there {
		t.Errorf("version %d, dirty %t, %v; migration 46 is there: %t", version, dirty, err, there)
	}
	return there
}

// before46 is a database that lacks migration 46 and what comes after.
func before46(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.New(t)
	for contested(t, pool) {
		if err := down(t.Context(), pool.Config().ConnString()); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// A migration that fails, be it with its very last word, leaves neither a trace nor a version, and can be tried again.
func TestAFailedMigrationIsNotThere(t *testing.T) {
	t.Parallel()
	pool := before46(t)
	if _, err := pool.Exec(t.Context(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON schema_migrations FOR EACH ROW WHEN (NOT NEW.dirty) EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	err := migrations.Up(t.Context(), pool.Config().ConnString())
	if err == nil || contested(t, pool) {
		t.Errorf("it is there, %v", err)
	}
	if err != nil && !strings.HasPrefix(err.Error(), "the migration to version 46 failed: ERROR: refused") || strings.Contains(err.Error(), "ALTER TABLE") {
		t.Errorf("what is the matter is not said, or lost in the file: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "DROP FUNCTION refuse CASCADE"); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(t.Context(), pool.Config().ConnString()); err != nil || !contested(t, pool) {
		t.Error(err)
	}
}

// So does one that is killed, and nothing has to be mended by hand.
func TestAKilledMigrationIsNotThere(t *testing.T) {
	t.Parallel()
	pool := before46(t)
	reader, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Rollback(t.Context())
	if _, err := reader.Exec(t.Context(), "LOCK TABLE sign_in IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	up := make(chan error, 1)
	go func() { up <- migrations.Up(context.WithoutCancel(t.Context()), pool.Config().ConnString()) }()
	for killed := false; !killed; {
		if err := pool.QueryRow(t.Context(), `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_locks
			WHERE relation = 'sign_in'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND NOT granted`).Scan(&killed); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-up; err == nil {
		t.Error("it was not killed")
	}
	if err := reader.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if contested(t, pool) {
		t.Error("it is there")
	}
	if err := migrations.Up(t.Context(), pool.Config().ConnString()); err != nil || !contested(t, pool) {
		t.Error(err)
	}
}

// A process of the service that was not stopped uses several tables in one transaction, as a migration does, and so PostgreSQL may have to end the one
// or the other. Whoever migrates is told what to stop.
func TestADeadlockSaysWhatToStop(t *testing.T) {
	t.Parallel()
	pool := before46(t)
	do(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01', DETAIL = 'Process 7 waits.'; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON schema_migrations FOR EACH ROW WHEN (NOT NEW.dirty) EXECUTE FUNCTION refuse()`)
	err := migrations.Up(t.Context(), pool.Config().ConnString())
	const want = "the migration to version 46 failed: ERROR: deadlock detected (SQLSTATE 40P01): Process 7 waits. " +
		"Something uses the same tables, such as a process of the service that was not stopped: stop it, and try again"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// What another program left dirty is mended by looking for what the migration's file makes. Numbers have gaps.
func TestHowToMend(t *testing.T) {
	t.Parallel()
	for version, words := range map[uint][]string{
		1: {"0001_river.up.sql", "force 1,", "force 0;"}, 30: {"0030_sign_in.up.sql", "force 30,", "force 20;"}, 21: {"does not know it"},
	} {
		for _, word := range words {
			if said := migrations.Mend(version); !strings.Contains(said, word) {
				t.Errorf("of version %d %q is missing: %s", version, word, said)
			}
		}
	}
}

// TestRiverIsTheLibrarys holds our copies against the library: River is upgraded by adding a migration, never by accident.
func TestRiverIsTheLibrarys(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := m.Validate(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !result.OK {
		t.Errorf("River wants more: %v", result.Messages)
	}
	ours := ""
	for _, name := range []string{"0001_river.up.sql", "0002_river.up.sql"} {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ours += string(content)
	}
	for _, v := range m.AllVersions() {
		if sql := strings.TrimSpace(strings.ReplaceAll(v.SQLUp, "/* TEMPLATE: schema */", "")); !strings.Contains(ours, sql) {
			t.Errorf("River's migration %d (%s) is not what we have", v.Version, v.Name)
		}
	}
}

// What a migration makes is the service's to use, whoever runs it: an operator with a role of their own that is only a
// member of the service's is refused, and is served once their sessions begin as the service's role. Who they are is
// noted all the same.
func TestWhatIsMadeBelongsToTheSchemasOwner(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	own := pool.Config().ConnConfig
	downTo(t, own.ConnString(), 66)
	alice, hers := pgtest.Member(t, pool)
	become := "ALTER ROLE " + alice + " SET role = '" + own.User + "'"
	if err := migrations.Up(t.Context(), hers); !errors.Is(err, migrations.ErrOwner) || !strings.Contains(err.Error(), become) {
		t.Errorf("a member of the owner's role: %v", err)
	}
	session := func() *pgx.Conn {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), hers)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		return conn
	}
	if _, err := session().Exec(t.Context(), become); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Up(t.Context(), hers); err != nil {
		t.Fatal(err)
	}
	if theirs := one(t, pool, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relowner <> '`+own.User+`'::regrole`); theirs != "0" {
		t.Errorf("%s tables and indexes are another's", theirs)
	}
	var role string
	if err := session().QueryRow(t.Context(), `INSERT INTO operator_command (at, operator, command, arguments) VALUES ('2026-01-01', 'x', 'x', '{}') RETURNING role`).Scan(&role); err != nil || role != alice {
		t.Errorf("noted of %q, %v", role, err)
	}
}
