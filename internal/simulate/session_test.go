package simulate

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// openInside opens a database, and returns the context of its world.
func openInside(t *testing.T) (context.Context, *database) {
	t.Helper()
	ctx := context.WithValue(t.Context(), insideKey{}, true)
	d, err := openLab(t).open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.close(context.WithoutCancel(ctx)) })
	return ctx, d
}

// A session outlives a cut connection: what was not committed is undone, and prepared statements remain.
func TestASessionOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	ctx, d := openInside(t)
	const insert = "INSERT INTO usr (name, created_at) VALUES ($1, now()) RETURNING pg_backend_pid(), (SELECT count(*) FROM usr), (SELECT count(*) FROM pg_prepared_statements)"
	add := func(name string, cut bool) (pid, rows, prepared int) {
		t.Helper()
		tx, err := d.pool.Begin(ctx)
		if err == nil {
			err = tx.QueryRow(ctx, insert, name).Scan(&pid, &rows, &prepared)
		}
		if err != nil {
			t.Fatal(err)
		}
		if cut {
			tx.Conn().PgConn().Conn().(*wire).cut()
		}
		if err := tx.Commit(ctx); (err != nil) != cut {
			t.Fatalf("commit of %s: %v", name, err)
		}
		return pid, rows, prepared
	}
	pid, before, prepared := add("first", true)
	for _, name := range []string{"second", "third"} {
		again, rows, still := add(name, name == "second")
		if again != pid || rows != before || still != prepared {
			t.Errorf("%s: backend %d, %d rows, %d statements; before %d, %d, %d", name, again, rows, still, pid, before, prepared)
		}
	}
	if _, rows, _ := add("fourth", false); rows != before+1 {
		t.Errorf("%d rows where one was committed after %d", rows, before)
	}
}

// A late request in a transaction may find its row locked by somebody who continues only after it. It then fails at
// once.
func TestWhatArrivesLateWaitsForNobody(t *testing.T) {
	t.Parallel()
	ctx, d := openInside(t)
	const change = "UPDATE key_epoch SET epoch = epoch + 1"
	holder, err := d.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(ctx) }()
	if _, err := holder.Exec(ctx, change); err != nil {
		t.Fatal(err)
	}
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := tx.Conn().PgConn().Conn().(*wire)
	c.meet(late)
	if _, err := tx.Exec(ctx, change); err == nil {
		t.Fatal("the connection is not lost")
	}
	begun := time.Now()
	if done, waits := c.arriveLate(); done || waits {
		t.Errorf("done %t, waits %t", done, waits)
	}
	c.cut()
	if took := time.Since(begun); took > hung/2 {
		t.Errorf("it was waited for, %s", took)
	}
	_ = tx.Rollback(ctx) // its connection is gone
}

// PostgreSQL's messages are understood in whatever pieces they arrive.
func TestMessagesInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type said struct{ kind, first byte }
		var all []said
		var stream []byte
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			kind, body := byte(rapid.IntRange('1', 'Z').Draw(t, "kind")), rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "body")
			stream = append(binary.BigEndian.AppendUint32(append(stream, kind), uint32(4+len(body))), body...)
			all = append(all, said{kind, append(bytes.Clone(body), 0)[0]})
		}
		var f frame
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "piece")
			f.read(stream[:n], func(kind, first byte) {
				if len(all) == 0 || all[0] != (said{kind, first}) {
					t.Fatalf("heard %c %d, expected %v", kind, first, all)
				}
				all = all[1:]
			})
			stream = stream[n:]
		}
		if len(all) > 0 || len(f.head) > 0 {
			t.Fatalf("not heard: %v", all)
		}
	})
}
