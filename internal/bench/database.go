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

// The databases of the contenders: all on one server, each with tables of its own.
const (
	referenceDB = "reference"
	holdfastDB  = "holdfast"
	rowsDB      = "rows"
)

//go:embed reference/*.sql rows/*.sql growth/*.sql flows/*.sql
var scripts embed.FS

// settings are what the server has beside its defaults. It is durable. No checkpoint falls into the measured time of one contender
// and spares the other. It has as much memory as one has on a machine of its own: with PostgreSQL's default, 128 MB, the tables of one contender fit and
// those of the other do not, and what is told is which.
var settings = map[string]string{
	"shared_buffers": "2GB",
	"fsync":          "on", "synchronous_commit": "on", "full_page_writes": "on",
	"checkpoint_timeout": "1h", "max_wal_size": "16GB", "min_wal_size": "8GB",
}

// database is the server with all that the contenders work on.
type database struct {
	*pgserver.Server
	dir          string // of the scripts
	users, items int
	keys         []string // API keys: of the users 1, 2, 3, …
}

// credits is what each user has at the beginning, in msat: more than they can spend.
const credits = 1_000_000_000_000

// startDatabase starts a server in dir, with some settings beside or in place of the usual ones, and fills the databases. On an error
// nothing is left running.
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
	return d, d.fill(ctx)
}

// readyLog fills so many segments of the log, and has the server keep them to be written over, as one that has been at work for a while has them. A new
// server makes each as it comes to it, and all commits wait for that: 60 to 110 ms for each 16 MB, by turns in one contender's time and in another's.
// The databases are filled after it, so that their pages are not logged in full in the time of who changes them first.
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

// fill makes Holdfast's database, and a copy of it for those who write its rows without it.
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
		// Not the tables that are empty: PostgreSQL would believe them to stay so, and read them from end to end as they grow.
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

// environment lets PostgreSQL's programs into a database; what is secret is in no list of arguments.
func (d *database) environment(name string) ([]string, error) {
	to, err := pgx.ParseConfig(d.DSN(name))
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), "PGHOST="+to.Host, "PGPORT="+strconv.Itoa(int(to.Port)), "PGUSER="+to.User, "PGPASSWORD="+to.Password,
		"PGDATABASE="+name, "PGSSLMODE=disable"), nil
}

// psql runs a script with variables, NAME=value each.
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
