package architecture

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	comment = regexp.MustCompile(`(?m)--.*$`)
	// Time and randomness are arguments, so that a simulation controls both.
	impure = regexp.MustCompile(`(?i)\b(now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|random|gen_random_uuid)\s*\(|` +
		`\b(current_timestamp|current_date|current_time|localtimestamp|localtime)\b|'now'`)
	// Foreign keys of inserted rows lock what they refer to, and a plain FOR UPDATE deadlocks with them.
	plainLock = regexp.MustCompile(`(?i)\bFOR\s+UPDATE\b`)
	rowLock   = regexp.MustCompile(`(?i)\bFOR\s+NO\s+KEY\s+UPDATE\b`)
	selects   = regexp.MustCompile(`(?i)\bSELECT\b`)
	ordered   = regexp.MustCompile(`(?i)\bORDER\s+BY\b`)
	oneRow    = regexp.MustCompile(`(?i)\bWHERE\s+(id|key|name)\s*=\s*(\$\d+|@\w+|p_\w+)(\s+AND\b|\s*$)`)
)

// statements are the queries and our own migrations, without comments, by file.
func statements(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"internal/db/*.sql", "lock/internal/lockdb/*.sql", "migrations/*.up.sql"} {
		names, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: no file, error %v", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_river.up.sql") {
				continue // the library's own
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = comment.ReplaceAllString(string(text), "")
		}
	}
	return all
}

// clocked are the files in which the database's clock decides. Leases compare moments of different machines, which
// share only this clock. A simulation replaces the whole lock by the one in memory.
var clocked = []string{"migrations/0006_lock.up.sql", "migrations/0069_lock_process.up.sql", "migrations/0073_lock_own_process.up.sql",
	"lock/internal/lockdb/lock.sql"}

func TestSQLIsGivenTimeAndChance(t *testing.T) {
	t.Parallel()
	all := statements(t)
	for _, name := range clocked {
		if all[filepath.Join(top, name)] == "" {
			t.Errorf("%s is excepted and does not exist", name)
		}
		delete(all, filepath.Join(top, name))
	}
	for name, text := range all {
		for _, found := range impure.FindAllString(text, -1) {
			t.Errorf("%s asks the database for %q: time and chance are arguments", name, found)
		}
	}
}

func TestLocksAreOrdered(t *testing.T) {
	t.Parallel()
	locks := 0
	for name, text := range statements(t) {
		if plainLock.MatchString(text) {
			t.Errorf("%s has a plain FOR UPDATE: FOR NO KEY UPDATE", name)
		}
		for _, at := range rowLock.FindAllStringIndex(text, -1) {
			locks++
			before := text[:at[0]]
			begin := selects.FindAllStringIndex(before, -1)
			if len(begin) == 0 {
				t.Errorf("%s has a lock without a SELECT", name)
				continue
			}
			query := strings.TrimSpace(before[begin[len(begin)-1][0]:])
			if !ordered.MatchString(query) && !oneRow.MatchString(query) {
				t.Errorf("%s locks rows in no order: %s", name, query)
			}
		}
	}
	if locks == 0 {
		t.Error("no lock was found: does this test still look at the right place?")
	}
}

var (
	makesTable = regexp.MustCompile(`(?i)\bCREATE\s+TABLE\s+(\w+)`)
	makesIndex = regexp.MustCompile(`(?i)\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+\w+\s+ON\s+(\w+)`)
)

// Whoever upgrades knows beforehand which migrations read tables that may be large: each that makes an index of a table
// which was there before it is on the list.
func TestMigrationsThatReadTablesAreListed(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(read(t, "docs/operations.md"), "**Some migrations read whole tables**")
	list, _, _ = strings.Cut(list, "\n\n")
	listed := regexp.MustCompile(`\d+`).FindAllString(list, -1)
	if len(listed) == 0 {
		t.Fatal("docs/operations.md has no list of them")
	}
	for name, text := range statements(t) {
		number, _, _ := strings.Cut(filepath.Base(name), "_")
		if !strings.HasSuffix(name, ".up.sql") || number < "0033" { // the list begins there
			continue
		}
		var own []string
		for _, made := range makesTable.FindAllStringSubmatch(text, -1) {
			own = append(own, made[1])
		}
		for _, made := range makesIndex.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(own, made[1]) && !slices.Contains(listed, strings.TrimLeft(number, "0")) {
				t.Errorf("%s makes an index of %s: docs/operations.md lists it among those that read whole tables", name, made[1])
			}
		}
	}
}

// unflushed are the files in which a commit does not wait for the disk: leases, and CommitUnflushed for what is folded
// again after a crash.
var unflushed = []string{"migrations/0006_lock.up.sql", "migrations/0069_lock_process.up.sql", "migrations/0073_lock_own_process.up.sql",
	"lock/internal/lockdb/lock.sql", "internal/db/action.sql"}

// A database that may forget is refused (spec 05.16g). Nor may a step of a payment, or the promise to send one, be
// committed in such a way that a crash forgets it.
func TestPaymentsAreCommittedToDisk(t *testing.T) {
	t.Parallel()
	all := statements(t)
	for _, name := range unflushed {
		if !strings.Contains(all[filepath.Join(top, name)], "synchronous_commit") {
			t.Errorf("%s is excepted and says nothing of it", name)
		}
		delete(all, filepath.Join(top, name))
	}
	for name, text := range all {
		if strings.Contains(text, "synchronous_commit") {
			t.Errorf("%s says how its commit is kept", name)
		}
	}
	if n := strings.Count(read(t, "internal/db/action.sql"), "'synchronous_commit'"); n != 1 {
		t.Errorf("beside CommitUnflushed %d queries say how their commit is kept", n-1)
	}
	var callers []string
	for _, f := range goFiles(t) {
		if !f.generated && !f.test && strings.Contains(f.source, ".CommitUnflushed(") {
			callers = append(callers, f.path)
		}
	}
	if !slices.Equal(callers, []string{"worker/fold.go"}) {
		t.Errorf("%q call CommitUnflushed, want folding alone", callers)
	}
}

// options are those of a transaction that is begun by pgx itself.
var options = regexp.MustCompile(`pgx\.TxOptions\{[^}]*\}`)

// Whoever waits for a lock reads afterwards what was committed meanwhile, and no refusal to serialise meets those who do not
// repeat: both rest on READ COMMITTED, whatever the server's default is. So transactions are db.Transactions, or say
// otherwise. archive has savepoints, which those have not, and benchmarks have servers of their own.
func TestTransactionsSayHowTheyAreIsolated(t *testing.T) {
	t.Parallel()
	said := 0
	for _, f := range goFiles(t) {
		if f.generated || f.test || withinAny(f.dir, "archive", "internal/bench") {
			continue
		}
		if strings.Contains(f.source, "pgx.BeginFunc(") {
			t.Errorf("%s leaves to the server how its transactions are isolated: use db.InTransaction", f.path)
		}
		for _, given := range options.FindAllString(f.source, -1) {
			if said++; !strings.Contains(given, "IsoLevel: ") {
				t.Errorf("%s leaves to the server how its transactions are isolated: %s", f.path, given)
			}
		}
	}
	if said == 0 {
		t.Error("no transaction says it: does this test still look at the right place?")
	}
}

// A migration whose number is below one that a database has is never applied there, and one without its way down ends the way back. So numbers follow each other
// and leave none out but 21 to 29, which never were.
func TestMigrationsFollowEachOther(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(top, "migrations/*.sql")) // sorted: the way down comes before the way up
	if err != nil || len(names) == 0 || len(names)%2 != 0 {
		t.Errorf("%d files, %v: not each has both ways", len(names), err)
	}
	number, title := 0, ""
	for i, name := range names {
		base, way := filepath.Base(name), ".up.sql"
		if i%2 == 0 {
			if number++; number == 21 {
				number = 30
			}
			way = ".down.sql"
			title = strings.TrimSuffix(base, way)
		}
		if base != title+way || !strings.HasPrefix(base, fmt.Sprintf("%04d_", number)) {
			t.Fatalf("%s stands where %04d_….%s should", base, number, way[1:])
		}
	}
}
