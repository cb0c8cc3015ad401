package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/migrations"
)

// byCarol runs commands as carol, who can be noted, and wants each to end with an exit code.
func byCarol(t *testing.T, pool *pgxpool.Pool) func(want int, arguments ...string) (out string) {
	env := settings(pool, "SUDO_USER=carol")
	return func(want int, arguments ...string) (out string) {
		t.Helper()
		code, out, said := command(t, env, arguments...)
		if code != want {
			t.Fatalf("%v: exit code %d: %s%s", arguments, code, out, said)
		}
		if strings.Contains(said, "could not be noted") {
			t.Errorf("%v: %s", arguments, said)
		}
		return out
	}
}

// Whoever changes something is noted, with what they asked for and how it ended; whoever only looks is not.
func TestWhoChangesSomethingIsNoted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	do := byCarol(t, pool)
	var alice struct{ Key string }
	if err := json.Unmarshal([]byte(do(exitOK, "users", "add", "alice")), &alice); err != nil {
		t.Fatal(err)
	}
	do(exitOK, "users", "keys", "alice")
	do(exitFailed, "users", "key", "nobody", "--scopes", "READ,SPEND", "--json")
	do(exitOK, "users", "revoke", alice.Key)
	do(exitUsage, "actions", "give-up", "--reason", "A node is gone.") // refused before anything is asked of the database
	do(exitFailed, "relay", "paid", "1", "--preimage", strings.Repeat("5a", 32))
	do(exitOK, "webhooks", "add", "https://hooks.example/services/T0/B0/topsecret?key=topsecret")
	do(exitUsage, "webhooks", "add", "https://carol:topsecret@hooks.example/services")

	var noted []commandShown
	if err := json.Unmarshal([]byte(do(exitOK, "commands")), &noted); err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	var told []string
	for _, c := range noted {
		if c.Operator != "carol@"+host || c.Role != pool.Config().ConnConfig.User || c.Ended == nil || c.Ended.Before(c.At) || time.Since(c.At) > time.Hour {
			t.Errorf("%+v", c)
		}
		end := "done"
		if c.Failure != nil {
			end = *c.Failure
		}
		told = append(told, c.Command+" "+strings.Join(c.Arguments, " ")+": "+end)
	}
	want := []string{
		"webhooks add https://hooks.example/(secret): refused arguments: This address cannot be called: send one that begins with https:// and contains no user name.",
		"webhooks add https://hooks.example/(secret): done",
		"relay paid 1 --preimage=(secret): action 1 has no outgoing payment: holdfast relay list shows those that have one",
		"users revoke (secret): done",
		`users key nobody --scopes=READ,SPEND: there is no user "nobody": holdfast users add makes one`,
		"users add alice: done",
	}
	if !slices.Equal(told, want) {
		t.Errorf("noted:\n%s", strings.Join(told, "\n"))
	}
	if page := do(exitOK, "commands", "--before", "2"); !strings.Contains(page, "users add") || strings.Contains(page, "revoke") {
		t.Errorf("the next page: %s", page)
	}
}

// What cannot be noted is not done.
func TestWhatCannotBeNotedIsNotDone(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE operator_command ADD CHECK (command <> 'users add')"); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := command(t, env, "users", "add", "alice"); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	var users int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM usr WHERE name = 'alice'").Scan(&users); err != nil || users != 0 {
		t.Errorf("%d users, %v", users, err)
	}
}

// Who moves the schema is noted as well, also by the table of notes that this makes; not whoever finds nothing to do, as
// each start of the service.
func TestWhoMovesTheSchemaIsNoted(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	do := byCarol(t, pool)
	wantNoted := func(want ...string) {
		t.Helper()
		var noted []commandShown
		if err := json.Unmarshal([]byte(do(exitOK, "commands")), &noted); err != nil {
			t.Fatal(err)
		}
		told := []string{}
		for _, c := range noted {
			if !strings.HasPrefix(c.Operator, "carol@") || c.Ended == nil || c.Ended.Before(c.At) {
				t.Errorf("%+v", c)
			}
			end := "done"
			if c.Failure != nil {
				end = *c.Failure
			}
			told = append(told, strings.Join(append([]string{c.Command}, c.Arguments...), " ")+": "+end)
		}
		if !slices.EqualFunc(told, want, strings.HasPrefix) {
			t.Errorf("noted:\n%s", strings.Join(told, "\n"))
		}
	}
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	do(exitOK, "migrate", "up")
	do(exitOK, "migrate", "version")
	do(exitUsage, "migrate", "down")
	wantNoted()
	do(exitOK, "migrate", "down", "--yes")
	do(exitOK, "migrate", "up")
	if _, err := pool.Exec(t.Context(), "ALTER TABLE schema_migrations ADD CHECK (version <> 20)"); err != nil {
		t.Fatal(err)
	}
	do(exitFailed, "migrate", "force", "20", "--yes")
	do(exitOK, "migrate", "force", number(int64(latest)))
	wantNoted(fmt.Sprintf("migrate force %d: done", latest), "migrate force 20 --yes=true: database ", "migrate up: done", "migrate down --yes=true: done")
	if _, err := pool.Exec(t.Context(), "DROP TABLE schema_migrations"); err != nil { // with its CHECK
		t.Fatal(err)
	}
	do(exitOK, "migrate", "force", "--yes", number(int64(latest)))
	do(exitOK, "migrate", "down", "--all", "--yes")
	do(exitOK, "migrate", "up")
	wantNoted("migrate up: done")
}

// Each command either changes something, and is noted, or is one of these. They change nothing that people see.
func TestEachCommandIsNotedOrChangesNothing(t *testing.T) {
	t.Parallel()
	unnoted := []string{
		"serve", "healthcheck", "migrate version", "config print", "commands", "locks",
		"actions list", "actions stuck", "actions show", "nodes list", "relay list", "relay show", "timeline list", "users keys",
		"users wallets", "webhooks list", "reconcile",
	}
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, leaf := range parser.Model.Leaves(false) {
		if !leaf.Tag.Has("changes") {
			name := leaf.Name
			for at := leaf.Parent; at.Type == kong.CommandNode; at = at.Parent {
				name = at.Name + " " + name
			}
			left = append(left, name)
		}
	}
	slices.Sort(unnoted)
	slices.Sort(left)
	if !slices.Equal(left, unnoted) {
		t.Errorf("these are not noted:\n%q, want\n%q", left, unnoted)
	}
}

// The README has a row for each command, which names what it does.
func TestTheREADMEHasEveryCommand(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := kong.New(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range parser.Model.Children {
		row := ""
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| `holdfast "+c.Name+"`") || strings.HasPrefix(line, "| `holdfast "+c.Name+" ") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("it has no row for holdfast %s", c.Name)
		}
		for _, of := range c.Children {
			if of != c.DefaultCmd && !strings.Contains(row, "`"+of.Name+"`") && !strings.Contains(row, "`holdfast "+c.Name+" "+of.Name+"`") {
				t.Errorf("its row for holdfast %s does not name %s", c.Name, of.Name)
			}
		}
	}
}
