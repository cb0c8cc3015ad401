package bench

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/graph"
	"github.com/a-seed-a7aed72f/holdfast/internal/pgserver"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// The databases of the contenders. All are on one server, each with its own tables.
const (
	referenceDB = "reference"
	holdfastDB  = "holdfast"
	rowsDB      = "rows"
)

//go:embed reference/*.sql rows/*.sql growth/*.sql flows/*.sql
var scripts embed.FS

// settings are the server's settings besides its defaults. The server is durable. No checkpoint hits one contender's
// measured time and spares another's. It has the memory that is usual for a dedicated machine: with PostgreSQL's
// default of 128 MB the tables of one contender would fit, another's would not, and that alone would be measured.
var settings = map[string]string{
	"shared_buffers": "2GB",
	"fsync":          "on", "synchronous_commit": "on", "full_page_writes": "on",
	"checkpoint_timeout": "1h", "max_wal_size": "16GB", "min_wal_size": "8GB",
}

// database is the server with everything that the contenders work on.
type database struct {
	*pgserver.Server
	dir          string // the scripts'
	users, items int
	keys         []string // API keys: of the users 1, 2, 3, …
}

// credits is what each user has at the start, in msat: more than they can spend.
const credits = 1_000_000_000_000

// startDatabase starts a server in dir and fills the databases. more adds to the usual settings or replaces them. After
// an error nothing is left running.
func startDatabase(ctx context.Context, dir string, o Options, more map[string]string) (_ *database, err error) {
	set := maps.Clone(settings)
	maps.Copy(set, more)
	server, err := pgserver.Start(ctx, pgserver.Options{Dir: filepath.Join(dir, "postgres"), MaxConnections: 300, Settings: set, Log: o.say})
	if err != nil {
		return nil, err
	}
	d := &database{Server: server, dir: filepath.Join(dir, "scripts"), users: o.Users, items: o.Items}
	defer func() {
		if err != nil {
			server.Stop()
		}
	}()
	if err := os.CopyFS(d.dir, scripts); err != nil {
		return nil, err
	}
	if err := d.readyLog(ctx, o.Segments); err != nil {
		return nil, err
	}
	for range d.users {
		sum := sha256.Sum256([]byte(rand.Text()))
		d.keys = append(d.keys, "hf_"+base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	if err := d.EnsureDatabase(ctx, referenceDB); err != nil {
		return nil, err
	}
	if err := d.psql(ctx, referenceDB, "reference/schema.sql"); err != nil {
		return nil, err
	}
	if err := d.firstActions(ctx); err != nil {
		return nil, err
	}
	return d, d.fill(ctx)
}

// firstActions lets the reference be paid so many times that PostgreSQL looks actions up by their index. Its script leaves
// them vacuumed and empty, and whoever is connected then scans all of them for each payment, however many they become: the
// first measurement of all would be half to a third as fast as the same in later rounds.
func (d *database) firstActions(ctx context.Context) error {
	cmd, err := d.scriptRun(ctx, referenceDB, filepath.Join(referenceDB, string(uniform)+".sql"), "-c", "1", "-t", "1000")
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the reference's first actions: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// readyLog fills this many segments of the log, and has the server keep them for reuse, as a server that has worked for
// a while has them. A new server creates each segment when it reaches it, and all commits wait for that: 60 to 110 ms
// for each 16 MB, now in one contender's time, now in another's. The databases are filled afterwards, so that no
// contender's first changes log whole pages.
func (d *database) readyLog(ctx context.Context, segments int) error {
	connection, err := pgx.Connect(ctx, d.DSN("postgres"))
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	for _, statement := range []string{
		"SELECT pg_logical_emit_message(false, '', repeat(' ', 1 << 20)) FROM generate_series(1, 16 * " + strconv.Itoa(segments) + ")",
		"SELECT pg_switch_wal()", "CHECKPOINT",
	} {
		if _, err := connection.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the log ready: %w", err)
		}
	}
	return nil
}

// fill makes Holdfast's database, and a copy of it for pgbench, which writes the same rows without Holdfast.
func (d *database) fill(ctx context.Context) error {
	if err := d.EnsureDatabase(ctx, holdfastDB); err != nil {
		return err
	}
	if err := migrations.Up(ctx, d.DSN(holdfastDB)); err != nil {
		return err
	}
	begun := time.Now().UTC().Add(-time.Hour)
	err := d.psql(ctx, holdfastDB, "rows/fill.sql", "users="+strconv.Itoa(d.users), "items="+strconv.Itoa(d.items),
		"msat="+strconv.Itoa(credits), "at="+begun.Format(time.RFC3339))
	if err != nil {
		return err
	}
	connection, err := pgx.Connect(ctx, d.DSN(holdfastDB))
	if err != nil {
		return err
	}
	_, err = connection.CopyFrom(ctx, pgx.Identifier{"api_key"}, []string{"user_id", "key_hash", "scopes", "created_at"},
		pgx.CopyFromSlice(len(d.keys), func(i int) ([]any, error) {
			return []any{i + 1, graph.HashKey(d.keys[i]), graph.Scopes, begun}, nil
		}))
	if err == nil {
		// Leave out empty tables: PostgreSQL would believe that they stay empty, and keep scanning them as they grow.
		_, err = connection.Exec(ctx, "VACUUM ANALYZE usr, api_key, account, posting, paid_action, action_history, item")
	}
	if closed := connection.Close(ctx); err == nil {
		err = closed // a template may have no connections
	}
	if err != nil {
		return fmt.Errorf("fill the database: %w", err)
	}
	admin, err := pgx.Connect(ctx, d.DSN("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, "CREATE DATABASE "+rowsDB+" TEMPLATE "+holdfastDB)
	return err
}

// environment lets PostgreSQL's programs into a database without showing secrets among the arguments.
func (d *database) environment(name string) ([]string, error) {
	to, err := pgx.ParseConfig(d.DSN(name))
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "PGHOST="+to.Host, "PGPORT="+strconv.Itoa(int(to.Port)), "PGUSER="+to.User, "PGPASSWORD="+to.Password,
		"PGDATABASE="+name, "PGSSLMODE=disable"), nil
}

// psql runs a script with variables, each NAME=value.
func (d *database) psql(ctx context.Context, name, script string, variables ...string) error {
	args := []string{"-X", "-q", "-v", "ON_ERROR_STOP=1"}
	for _, v := range variables {
		args = append(args, "-v", v)
	}
	cmd := exec.CommandContext(ctx, d.Program("psql"), append(args, "-f", filepath.Join(d.dir, script))...)
	var err error
	if cmd.Env, err = d.environment(name); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", script, err, strings.TrimSpace(string(out)))
	}
	return nil
}
