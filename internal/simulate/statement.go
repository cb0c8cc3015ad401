package simulate

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// statements are the yield points at PostgreSQL: pgx calls it before and after every statement, in the goroutine of the
// fiber. Statements that travel together count as one.
type statements struct{}

// statement is what is under way: one statement, or several that were sent together.
type statement struct {
	name    string // of the last one
	commits bool
	writes  bool // outside a transaction: it commits by itself
	args    []any
	fault   Fault
	tag     pgconn.CommandTag // of the last one
	ended   bool
}

type statementKey struct{}

// written is what a transaction leaves behind if it commits.
type written struct {
	steps []taken
	jobs  []*job
	relay bool  // a payment is ready for a node to take
	takes int64 // the action whose payment may now be taken
	names []string
}

// taken is a step of an action.
type taken struct {
	action   int64 // 0: the action that this transaction has made
	flow     paidaction.Flow
	from, to paidaction.State
	fact     paidaction.Fact
}

var gone = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// TraceQueryStart implements pgx.QueryTracer.
func (statements) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return ask(ctx, conn, &pgx.QueuedQuery{SQL: data.SQL, Arguments: data.Args})
}

// TraceBatchStart implements pgx.BatchTracer.
func (statements) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return ask(ctx, conn, data.Batch.QueuedQueries...)
}

// ask is called before statements are sent.
func ask(ctx context.Context, conn *pgx.Conn, queries ...*pgx.QueuedQuery) context.Context {
	f := fiberOf(ctx)
	if f == nil {
		return ctx
	}
	if f.dead() {
		f.letGo()
		return gone
	}
	f.pg = conn.PgConn()
	c := f.pg.Conn().(*wire)
	f.wire = c
	c.fiber.Store(f)
	first, last := queries[0].SQL, queries[len(queries)-1].SQL
	s := &statement{name: nameOf(last), args: queries[len(queries)-1].Arguments, commits: nameOf(last) == "commit"}
	f.doing = s.name
	outside := f.pg.TxStatus() == 'I'
	s.writes = outside && nameOf(first) != "begin" && writes(last)
	note := func() {
		for _, q := range queries {
			f.tx.note(nameOf(q.SQL), q.Arguments)
		}
	}
	begins := nameOf(first) == "begin"
	if begins {
		f.tx = &written{}
	}
	switch {
	case s.commits:
		note()
		s.fault = f.yield(beforeCommit, s.name+f.tx.what())
	case s.writes:
		s.fault = f.yield(beforeCommit, s.name)
	case begins:
		s.fault = f.yield(beforeBegin, "begin")
		note()
	case !outside && s.name != "rollback":
		s.fault = f.yield(inside, s.name)
		if f.tx != nil && (s.fault == "" || s.fault == stalls) {
			note()
		}
	}
	switch s.fault {
	case died:
		f.letGo()
		return gone
	case lostBefore, lostInside:
		c.cut()
	case lostAfter:
		c.meet(answerLost)
	case arrivesLate:
		c.meet(late)
	case refusedSerialising:
		c.meet(conflict)
	}
	f.asking.Store(int32(conn.PgConn().PID()))
	return context.WithValue(ctx, statementKey{}, s)
}

// letGo gives up the connection of a dead process. Inside a transaction the connection is broken; otherwise others use
// it from now on.
func (f *fiber) letGo() {
	if f.wire != nil && f.pg.TxStatus() != 'I' {
		f.wire.cut()
	}
	f.wire, f.pg, f.tx = nil, nil, nil
}

// TraceQueryEnd implements pgx.QueryTracer.
func (statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if s, ok := ctx.Value(statementKey{}).(*statement); ok {
		s.tag = data.CommandTag
		s.answered(fiberOf(ctx), data.Err)
	}
}

// TraceBatchQuery implements pgx.BatchTracer.
func (statements) TraceBatchQuery(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if s, ok := ctx.Value(statementKey{}).(*statement); ok {
		s.tag = data.CommandTag
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (statements) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	if s, ok := ctx.Value(statementKey{}).(*statement); ok {
		s.answered(fiberOf(ctx), data.Err)
	}
}

// answered is called once statements were answered, or will not be.
func (s *statement) answered(f *fiber, err error) {
	if s.ended { // pgx calls twice for some
		return
	}
	s.ended = true
	f.asking.Store(0)
	w, used, tx := f.world, f.wire, f.tx
	f.tidy()
	if f.pg != nil && f.pg.TxStatus() == 'I' {
		f.wire.fiber.Store(nil)
		f.wire, f.pg = nil, nil // others use it from now on
	}
	if s.name == "rollback" {
		f.tx = nil
	}
	if s.name == "rollback" || s.commits || s.writes {
		w.freed.Store(true)
	}
	if !s.commits && !s.writes {
		return
	}
	f.tx = nil
	if s.writes {
		tx = &written{}
		tx.note(s.name, s.args)
	}
	switch {
	case s.fault == arrivesLate:
		w.keepLate(f, used, tx)
	case err == nil && s.tag.String() != "ROLLBACK", s.fault == lostAfter && used.wasAnswered():
		w.happened(f, tx)
	}
	if err == nil {
		f.yield(afterCommit, s.name)
	}
}

func (t *written) note(name string, args []any) {
	switch name {
	case "InsertHistory":
		s := taken{action: args[0].(int64), to: paidaction.State(args[2].(string)), fact: paidaction.Fact(args[3].(string))}
		if from := args[1].(*string); from != nil {
			s.from = paidaction.State(*from)
		}
		t.steps = append(t.steps, s)
	case "InsertAction":
		t.steps = append(t.steps, taken{flow: paidaction.Flow(args[2].(string)), to: paidaction.State(args[4].(string)), fact: paidaction.Requested})
	case "InsertActions":
		flow, to := paidaction.Flow(args[3].(string)), paidaction.State(args[5].(string))
		for range args[1].([]int64) {
			t.steps = append(t.steps, taken{flow: flow, to: to, fact: paidaction.Requested})
		}
	case "MoveActions":
		for _, action := range args[0].([]int64) {
			t.steps = append(t.steps, taken{action: action, from: paidaction.State(args[5].(string)), to: paidaction.State(args[1].(string)),
				fact: paidaction.Fact(args[9].(string))})
		}
	case "AcceptRelay", "AcceptForwards", "RequeueRelay", "RequeueFailed":
		t.relay = true
	case "PermitSettle":
		t.takes = args[1].(int64)
		t.names = append(t.names, name)
	case "ClaimRelay", "EndAttempt", "FoldAccounts", "FoldOldest", "FoldItems", "FoldPolls", "InsertNotifications", "TellReceiver", "TellOfZaps":
		t.names = append(t.names, name)
	}
}

// what describes in short what is committed.
func (t *written) what() string {
	if t == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range t.steps {
		b.WriteString(" " + string(s.from) + "→" + string(s.to))
	}
	for _, n := range t.names {
		b.WriteString(" " + n)
	}
	return b.String()
}

// nameOf is the name of a query, or its first word.
func nameOf(sql string) string {
	if rest, ok := strings.CutPrefix(sql, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	name, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return name
}

func writes(sql string) bool {
	for line := range strings.Lines(sql) {
		if strings.HasPrefix(line, "--") {
			continue
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "INSERT", "UPDATE", "DELETE":
			return true
		}
		return word == "WITH" && (strings.Contains(sql, "INSERT INTO") || strings.Contains(sql, "UPDATE ") || strings.Contains(sql, "DELETE "))
	}
	return false
}
