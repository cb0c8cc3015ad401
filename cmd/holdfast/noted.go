package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

// asked is a command as somebody asked for it.
type asked struct {
	words     string   // such as "nodes drain"
	arguments []string // its own: settings are not among them, and what is tagged secret is left out
	changes   bool     // it is tagged so: it is noted
	operator  string   // who asked, as this machine names them
}

// askedFor tells a parsed command, and who asked for it. Settings come from their own places, and some are secrets.
func askedFor(c *kong.Context, env []string) asked {
	a := asked{operator: operatorIn(env), arguments: []string{}}
	var words []string
	seen := map[*kong.Value]bool{} // a list is in the path once for each of its elements
	for _, at := range c.Path {
		switch {
		case at.Command != nil:
			words = append(words, at.Command.Name)
			a.changes = at.Command.Tag.Has("changes")
		case at.Positional != nil && !seen[at.Positional]:
			seen[at.Positional] = true
			a.arguments = append(a.arguments, texts(at.Positional)...)
		case at.Flag != nil && !seen[at.Flag.Value] && !slices.Contains(c.Model.Flags, at.Flag):
			seen[at.Flag.Value] = true
			a.arguments = append(a.arguments, "--"+at.Flag.Name+"="+strings.Join(texts(at.Flag.Value), ","))
		}
	}
	a.words = strings.Join(words, " ")
	return a
}

// texts are what an argument was given, one text for each element of a list.
func texts(v *kong.Value) []string {
	given := reflect.Indirect(v.Target)
	switch {
	case v.Tag.Get("secret") == "but host":
		return []string{hostOf(fmt.Sprint(given.Interface())) + "(secret)"}
	case v.Tag.Has("secret"):
		return []string{"(secret)"}
	case given.Kind() != reflect.Slice:
		return []string{fmt.Sprint(given.Interface())}
	}
	all := make([]string, given.Len())
	for i := range all {
		all[i] = fmt.Sprint(given.Index(i).Interface())
	}
	return all
}

// hostOf is the beginning of an address, up to its host and without a user; empty if it has none. What follows the
// host is often what opens the door there.
func hostOf(address string) string {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return ""
	}
	return at.Scheme + "://" + at.Host + "/"
}

// operatorIn is the name of whoever runs this program, and of the machine: of sudo, who called it.
func operatorIn(env []string) string {
	name := ""
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "SUDO_USER="); ok {
			name = value
		}
	}
	if name == "" {
		if me, err := user.Current(); err == nil {
			name = me.Username
		}
	}
	host, _ := os.Hostname() // "" where there is none
	return cmp.Or(name, fmt.Sprint("uid ", os.Getuid())) + "@" + host
}

// withDatabase runs do on the service's database. A command that changes something is noted in it, before it begins and
// once it has ended: what cannot be noted is not done.
func withDatabase(ctx context.Context, e *environment, do func(*pgxpool.Pool, *db.Queries) error) error {
	pool, err := openPool(ctx, e)
	if err != nil {
		return err
	}
	defer pool.Close()
	q := db.New(pool)
	if !e.asked.changes {
		return do(pool, q)
	}
	id, err := q.NoteCommand(ctx, e.asked.begun())
	if err != nil {
		return fmt.Errorf("note who changes something: %w", err)
	}
	failed := do(pool, q)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := q.NoteEnd(ctx, ended(id, failed)); err != nil {
		e.log.WarnContext(ctx, "how the command ended could not be noted", "command", id, "error", err)
	}
	return failed
}

// begun is what is noted of a command that begins now.
func (a asked) begun() db.NoteCommandParams {
	return db.NoteCommandParams{At: time.Now(), Operator: a.operator, Command: a.words, Arguments: a.arguments}
}

// ended is what is noted of a command that has ended now.
func ended(id int64, failed error) db.NoteEndParams {
	end := db.NoteEndParams{At: time.Now(), ID: id}
	if failed != nil {
		end.Failure = new(plain(failed))
	}
	return end
}

// noteMove runs move, which moves the schema, and notes it as withDatabase does. But the table of notes may be made by it,
// or be gone with it: then it is noted once it has ended, or not at all. A schema has to be mended also where nothing can
// be noted, so that is only warned of.
func noteMove(ctx context.Context, e *environment, move func() error) error {
	var id int64
	begun := e.asked.begun()
	begin := func(ctx context.Context, q *db.Queries) (err error) {
		id, err = q.NoteCommand(ctx, begun)
		return err
	}
	note := func(do func(context.Context, *db.Queries) error) error {
		return onConnection(context.WithoutCancel(ctx), e.config.Direct(), func(ctx context.Context, conn *pgx.Conn) error { return do(ctx, db.New(conn)) })
	}
	_ = note(begin) // or afterwards
	failed := move()
	err := note(func(ctx context.Context, q *db.Queries) error {
		if id == 0 {
			if err := begin(ctx, q); err != nil {
				return err
			}
		}
		return q.NoteEnd(ctx, ended(id, failed))
	})
	var refused *pgconn.PgError
	gone := errors.As(err, &refused) && refused.Code == "42P01" // undefined_table
	if err != nil && !gone && failed == nil {                   // what keeps a move from being done often keeps it from being noted
		e.log.WarnContext(ctx, "who moved the schema, or how that ended, could not be noted", "error", err)
	}
	return failed
}

type commandsCommand struct{ newest }

// commandShown is a command as shown to an operator.
type commandShown struct {
	ID        int64      `json:"id"`
	At        time.Time  `json:"at"`
	Operator  string     `json:"operator"`
	Role      string     `json:"role"`
	Command   string     `json:"command"`
	Arguments []string   `json:"arguments"`
	Ended     *time.Time `json:"ended"` // null: it is under way, or was broken off
	Failure   *string    `json:"failure"`
}

func (c commandsCommand) Run(ctx context.Context, e *environment) error {
	before, err := c.page()
	if err != nil {
		return err
	}
	return withDatabase(ctx, e, func(_ *pgxpool.Pool, q *db.Queries) error {
		rows, err := q.CommandsBefore(ctx, db.CommandsBeforeParams{Before: before, Page: c.Limit})
		if err != nil {
			return err
		}
		shown := make([]commandShown, len(rows))
		for i, r := range rows {
			shown[i] = commandShown{r.ID, r.At, r.Operator, r.Role, r.Command, r.Arguments, r.EndedAt, r.Failure}
		}
		return e.print(shown, func(t *table) {
			t.row("ID", "AT", "OPERATOR", "ROLE", "COMMAND", "ENDED", "FAILURE")
			for _, s := range shown {
				t.row(s.ID, s.At, s.Operator, s.Role, strings.Join(append([]string{s.Command}, s.Arguments...), " "), s.Ended, s.Failure)
			}
		})
	})
}
