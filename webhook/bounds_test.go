package webhook_test

import "testing"

// The last place is given once, however many ask for it at the same moment.
func TestTheLastPlaceIsGivenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	for range 9 {
		w.Tell(&alice, s.URL)
	}
	tx, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(w.Ctx, `SELECT FROM usr ORDER BY id FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	refusals := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := w.Create(w.Ctx, &alice, s.URL, nil)
			refusals <- err
		}()
	}
	w.AwaitBlocked(2)
	if err := tx.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if first, second := <-refusals, <-refusals; (first == nil) == (second == nil) || w.Count(`SELECT count(*) FROM webhook`) != 10 {
		t.Errorf("%v, %v", first, second)
	}
}
