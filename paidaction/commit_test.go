package paidaction_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/enginetest"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/lightning/simnode"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// cut is a way to lose one commit: its connection breaks before the server has heard of it, or after it has done it.
type cut struct {
	armed atomic.Bool
	every atomic.Bool // and those that follow
	after bool
	then  bool        // the commit is answered, and nothing is any more
	away  atomic.Bool // from then on
	while func()      // what happens before whoever asked for it hears that one is lost which the server has not heard of
	says  string      // the severity and the code with which the server takes leave in place of the answer
}

type cutConn struct {
	net.Conn
	cut    *cut
	broken bool
	left   bool // the server has taken leave
}

// commitName is what pgx calls the prepared commit.
var commitName = func() []byte {
	sum := sha256.Sum256([]byte("commit"))
	return []byte("stmtcache_" + hex.EncodeToString(sum[:24]))
}()

// isCommit says whether a commit is to be carried out, alone or with statements before it; and not merely prepared.
func isCommit(b []byte) bool {
	text := bytes.Contains(b, []byte("commit\x00"))
	return text && b[0] == 'Q' || !text && bytes.Contains(b, commitName)
}

var errCut = errors.New("the connection was cut")

func (c *cutConn) Write(b []byte) (int, error) {
	if c.cut.away.Load() {
		_ = c.Close()
		return 0, errCut
	}
	if isCommit(b) && (c.cut.every.Load() || c.cut.armed.CompareAndSwap(true, false)) {
		c.broken = true
		if !c.cut.after {
			_ = c.Close()
			if c.cut.while != nil {
				c.cut.while()
			}
			return 0, errCut
		}
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.left {
		_ = c.Close()
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b) // the server has answered: the commit is done
	if done := bytes.Index(b[:n], []byte("C\x00\x00\x00\x0bCOMMIT\x00")); c.broken && c.cut.says != "" {
		if done < 0 {
			return n, err
		}
		c.left = true
		severity, code, _ := strings.Cut(c.cut.says, " ")
		fields := fmt.Sprintf("S%[1]s\x00V%[1]s\x00C%[2]s\x00Mat the commit\x00\x00", severity, code)
		return done + copy(b[done:], "E"+string(binary.BigEndian.AppendUint32(nil, uint32(4+len(fields))))+fields), nil
	}
	if c.broken && c.cut.then {
		c.cut.away.Store(true)
		return n, err
	}
	if c.broken {
		_ = c.Close()
		return 0, errCut
	}
	return n, err
}

// cutting is the world's engine on connections that can be cut.
func cutting(w *enginetest.World, after bool) (*paidaction.Engine, *cut) {
	w.Helper()
	c := &cut{after: after}
	settings := w.Pool.Config()
	settings.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cutConn{Conn: conn, cut: c}, err
	}
	pool, err := pgxpool.NewWithConfig(w.Ctx, settings)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(pool.Close)
	config := w.Engine.Config
	config.Pool = pool
	engine, err := paidaction.New(config)
	if err != nil {
		w.Fatal(err)
	}
	return engine, c
}

// lostAnswers are ways to lose the answer to a commit that is done: the connection breaks, or the server says that it cannot go on. It panics
// where a file cannot be synced or its disk is full of WAL, which it may find out after the commit's record is on the disk.
var lostAnswers = []string{"", "PANIC 53100", "PANIC 58030", "FATAL XX000"}

// The commit happened and its answer was lost: the row says so, and the caller learns that it is paid.
func TestCommitWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	for _, says := range lostAnswers {
		w := enginetest.New(t, paidaction.Settings{})
		user := w.User("payer", 100*sat, 0)
		engine, c := cutting(w, true)
		c.says = says
		c.armed.Store(true)
		pa, err := engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Caller: enginetest.Caller(user)})
		if err != nil || pa.State != paidaction.Paid || c.armed.Load() {
			t.Errorf("%q: %+v, %v", says, pa, err)
		}
		w.WantBalance(ledger.UserCredits(user), 90*sat)
		w.WantConserved()
	}
}

// So it is with those that share a commit, whether they have a key or not: each finds its own row, and is not paid for again.
func TestCommitOfManyWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	for _, says := range lostAnswers {
		w := enginetest.New(t, paidaction.Settings{})
		item := w.Post(w.User("author", 1000*sat, 0), "popular")
		var requests []paidaction.Request
		for i, key := range []string{"", "key", "", "key", "", "key"} {
			requests = append(requests, zapBy(w.User(fmt.Sprint("payer", i), 100*sat, 0), item, 10, key))
		}
		if _, err := ledger.Fold(w.Ctx, db.New(w.Pool), 100); err != nil { // a debit that lacks money would be tried once more
			t.Fatal(err)
		}
		engine, c := cutting(w, true)
		w.Engine, c.says = engine, says
		c.every.Store(true)
		for i, err := range crowd(w, requests) {
			if err != nil {
				t.Errorf("%q: %d: %v", says, i, err)
			}
		}
		if n := w.Count(`SELECT max(n) FROM (SELECT count(*) AS n FROM paid_action WHERE kind = 'ZAP' GROUP BY xmin::text) AS one`); n < 3 {
			t.Errorf("%q: at most %d zaps share a transaction", says, n)
		}
		for _, r := range requests {
			w.WantBalance(ledger.UserCredits(*r.Caller.User), 90*sat)
		}
		w.WantConserved()
	}
}

// The commit was answered, and then the database is away. From a balance it is paid, and nothing has to be read to say so. Of an invoice
// nothing is known: that it cannot be read back does not mean that nothing was done.
func TestCommitThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "key"} {
		for _, method := range []paidaction.Method{paidaction.FeeCredit, paidaction.Pessimistic} {
			w := enginetest.New(t, paidaction.Settings{})
			user := w.User("payer", 100*sat, 0)
			engine, c := cutting(w, true)
			c.then = true
			c.armed.Store(true)
			request := paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Key: key, Terms: paidaction.Terms{Method: method},
				Caller: enginetest.Caller(user)}
			pa, err := engine.Pay(w.Ctx, request)
			left, state := int64(90*sat), paidaction.Paid
			if method == paidaction.Pessimistic {
				left, state = 100*sat, paidaction.PendingHeld
				w.WantRefusal(err, paidaction.CodeUnknownOutcome)
			} else if err != nil || pa.State != state {
				t.Fatalf("%+v, %v", pa, err)
			}
			w.WantBalance(ledger.UserCredits(user), left)
			if c.away.Store(false); key == "" {
				continue
			}
			fresh, _ := cutting(w, true)
			if pa, err := fresh.Pay(w.Ctx, request); err != nil || pa.State != state {
				t.Errorf("%+v, %v", pa, err)
			}
			w.WantBalance(ledger.UserCredits(user), left)
		}
	}
}

// The commit never arrived. That no row is there proves nothing (it might still come), so the caller is told what is true:
// it is not known. The same key then makes it happen once.
func TestCommitThatNeverArrived(t *testing.T) {
	t.Parallel()
	w := enginetest.New(t, paidaction.Settings{})
	user := w.User("payer", 100*sat, 0)
	engine, c := cutting(w, false)
	request := paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Key: "key", Caller: enginetest.Caller(user)}
	c.armed.Store(true)
	_, err := engine.Pay(w.Ctx, request)
	w.WantRefusal(err, paidaction.CodeUnknownOutcome)
	w.WantBalance(ledger.UserCredits(user), 100*sat)
	for range 2 {
		if pa, err := engine.Pay(w.Ctx, request); err != nil || pa.State != paidaction.Paid {
			t.Fatalf("%+v, %v", pa, err)
		}
	}
	w.WantBalance(ledger.UserCredits(user), 90*sat)
	w.WantConserved()
}

// The commit never arrived, and the server gives the number of its action to another one, as it may after a crash: that one is not what was asked for,
// nor is it shown, whoever's it is.
func TestCommitThatNeverArrivedIsNotAnothers(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]func(w *enginetest.World, user int64){
		"another payer": func(w *enginetest.World, _ int64) { donate(w, w.User("another", 100*sat, 0), paidaction.FeeCredit) },
		"another time": func(w *enginetest.World, user int64) {
			w.Clock.Advance(time.Second)
			donate(w, user, paidaction.FeeCredit)
		},
		"another kind": func(w *enginetest.World, user int64) { w.Post(user, "a post") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := enginetest.New(t, paidaction.Settings{})
			user := w.User("payer", 100*sat, 0)
			engine, c := cutting(w, false)
			var number int64
			c.while = func() {
				number = w.Count(`SELECT setval('paid_action_id_seq', last_value, false) FROM paid_action_id_seq`)
				instead(w, user)
			}
			c.armed.Store(true)
			_, err := engine.Pay(w.Ctx, paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Caller: enginetest.Caller(user)})
			w.WantRefusal(err, paidaction.CodeUnknownOutcome)
			if n := w.Count(`SELECT count(*) FROM paid_action WHERE id = $1`, number); n != 1 {
				t.Errorf("%d actions have its number", n)
			}
		})
	}
}

// The server answers a commit with an error. Some of these say that nothing was done; those with which it ends the session do not.
func TestCommitThatIsAnsweredWithAnError(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]paidaction.Code{
		"25P03": paidaction.CodeTryAgain, // it stood still in the transaction: seen before the commit is begun
		"53100": paidaction.CodeTryAgain, // the disk is full
		"25P04": paidaction.CodeUnknownOutcome,
		"57P01": paidaction.CodeUnknownOutcome,
		"08006": paidaction.CodeUnknownOutcome,
	} {
		w := enginetest.New(t, paidaction.Settings{})
		user := w.User("payer", 100*sat, 0)
		run := func(sql string) {
			if _, err := w.Pool.Exec(w.Ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
		run(fmt.Sprintf(`CREATE FUNCTION test_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'at the commit' USING ERRCODE = '%s'; END $$`, code))
		run(`CREATE CONSTRAINT TRIGGER test_refuse AFTER INSERT ON action_history DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION test_refuse()`)
		request := paidaction.Request{Kind: community.KindDonate, Args: community.DonateArgs{Sats: 10}, Key: "key", Caller: enginetest.Caller(user)}
		_, err := w.Engine.Pay(w.Ctx, request)
		w.WantRefusal(err, want)
		run(`DROP TRIGGER test_refuse ON action_history`)
		if pa, err := w.Engine.Pay(w.Ctx, request); err != nil || pa.State != paidaction.Paid {
			t.Errorf("after %s: %+v, %v", code, pa, err)
		}
		w.WantBalance(ledger.UserCredits(user), 90*sat)
	}
}

// The same in the middle of an action's way: whoever comes next finds out what is true.
func TestStepWhoseCommitWasLost(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		w := enginetest.New(t, paidaction.Settings{})
		pa := donate(w, 0, "")
		if err := w.Node.PayHash(pa.Invoice.Hash, simnode.Payment{}); err != nil {
			t.Fatal(err)
		}
		engine, c := cutting(w, after)
		c.armed.Store(true)
		if _, err := engine.Advance(w.Ctx, pa.ID); err == nil {
			t.Error("a lost commit was taken for a step")
		}
		for range 2 {
			if _, err := engine.Advance(w.Ctx, pa.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.Drain()
		w.WantState(pa.ID, paidaction.Paid)
		w.WantBalance(ledger.RewardSats, 10*sat)
		w.WantConserved()
	}
}
