package webhook_test

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// If the answer to a rotation is lost, the owner rotates again, while their server still knows the first secret. So
// each secret signs for a day from when it was replaced, however many rotations there were.
func TestRotationsAfterLostAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, secret := w.Tell(&alice, s.URL)
	secrets := []string{secret}
	rotate := func() {
		t.Helper()
		_, secret, err := w.Rotate(w.Ctx, &alice, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, secret)
	}
	signed := func() (by []int) {
		t.Helper()
		if _, err := w.Test(w.Ctx, &alice, id); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		c := s.Got()[0]
		for i, secret := range secrets {
			if verify(secret, c, w.Clock.Now()) == nil {
				by = append(by, i)
			}
		}
		return by
	}
	for range 2 {
		rotate()
		w.Clock.Advance(8 * time.Hour)
	}
	rotate()
	if by := signed(); !slices.Equal(by, []int{0, 1, 2, 3}) {
		t.Errorf("signed by %v", by)
	}
	w.Clock.Advance(8 * time.Hour)
	if by := signed(); !slices.Equal(by, []int{1, 2, 3}) {
		t.Errorf("a day after the first was replaced, signed by %v", by)
	}
	for range 20 {
		rotate()
	}
	if by := signed(); !slices.Equal(by, []int{14, 15, 16, 17, 18, 19, 20, 21, 22, 23}) {
		t.Errorf("signed by %v, want the newest ten", by)
	}
	w.Clock.Advance(24 * time.Hour)
	if by := signed(); !slices.Equal(by, []int{23}) {
		t.Errorf("a day after the last, signed by %v", by)
	}
}

// For a day both secrets are good.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, old := w.Tell(&alice, s.URL)
	_, young, err := w.Rotate(w.Ctx, &alice, id, nil)
	if err != nil || young == old {
		t.Fatal(err)
	}
	for _, after := range []bool{false, true} {
		if _, err := w.Test(w.Ctx, &alice, id); err != nil {
			t.Fatal(err)
		}
		w.Deliver()
		c := s.Got()[0]
		if c.Body.Type != "webhook.test" || verify(young, c, w.Clock.Now()) != nil || (verify(old, c, w.Clock.Now()) != nil) != after {
			t.Errorf("a day later: %t; %v", after, c.Header)
		}
		w.Clock.Advance(24 * time.Hour)
	}
}

// Of two rotations at once, such as one and its repetition after a lost answer, each leaves the other's secret in force.
func TestTwoRotationsAtOnceLoseNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, first := w.Tell(&alice, s.URL)
	barrier, err := w.Pool.Begin(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer barrier.Rollback(w.Ctx)
	if _, err := barrier.Exec(w.Ctx, `SELECT FROM webhook WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	rotated := make(chan string)
	for range 2 {
		go func() {
			_, secret, err := w.Rotate(w.Ctx, &alice, id, nil)
			if err != nil {
				t.Error(err)
			}
			rotated <- secret
		}()
	}
	w.AwaitBlocked(2)
	if err := barrier.Commit(w.Ctx); err != nil {
		t.Fatal(err)
	}
	secrets := []string{first, <-rotated, <-rotated}
	w.test(&alice, id)
	w.Deliver()
	c := s.Got()[0]
	for i, secret := range secrets {
		if err := verify(secret, c, w.Clock.Now()); err != nil {
			t.Errorf("secret %d signs no more: %v", i, err)
		}
	}
}

// Neither tables nor logs hold a secret, and a secret that is moved to another row signs nothing.
func TestSecretsAreNeverSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 1_000_000, 0), newServer(t)
	id, secret := w.Tell(&alice, s.URL)
	s.Status(http.StatusTeapot)
	w.Post(alice, "a post")
	w.Deliver()
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	if n := w.Count(`SELECT count(*) FROM webhook WHERE position($1::bytea IN secret) > 0 OR secret = $1::bytea OR length(secret) < 40`, raw); n != 0 {
		t.Error("the secret is stored as it is")
	}
	if strings.Contains(w.Out.String(), secret[6:]) {
		t.Error("the secret is in the log")
	}
	other, _ := w.Tell(&alice, s.URL)
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE webhook SET secret = (SELECT secret FROM webhook WHERE id = $1) WHERE id = $2`, id, other); err != nil {
		t.Fatal(err)
	}
	m, err := w.Test(w.Ctx, &alice, other)
	if err != nil {
		t.Fatal(err)
	}
	s.Got()
	if _, err := w.Webhooks.Deliver(w.Ctx, m.ID); err != nil || len(s.Got()) != 0 {
		t.Errorf("a secret of another webhook signs, %v", err)
	}
}

// If the service's secret is lost, a webhook's cannot be opened any more. That is noted as a failed attempt, so that it
// ends, and its owner is told in the end. A new secret is all that it needs: the earlier ones do not sign any more.
func TestASecretThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	alice, s := w.User("alice", 0, 0), newServer(t)
	id, _ := w.Tell(&alice, s.URL)
	for range 3 {
		if _, _, err := w.Rotate(w.Ctx, &alice, id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Pool.Exec(w.Ctx, `UPDATE webhook SET secret = '\x00', previous = '\x00', former = ARRAY['\x00'::bytea, '\x00'] WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	waits := w.test(&alice, id)
	again, err := w.Webhooks.Deliver(w.Ctx, waits)
	if err != nil || again < 5*time.Second || again > 6*time.Second || len(s.Got()) != 0 {
		t.Fatalf("tried again after %s, %v", again, err)
	}
	if a := w.log(id)[0].Attempts; len(a) != 1 || a[0].Code != "SECRET_UNREADABLE" || a[0].Status != nil {
		t.Errorf("the log: %+v", a)
	}
	_, secret, err := w.Rotate(w.Ctx, &alice, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(again)
	if again, err := w.Webhooks.Deliver(w.Ctx, waits); err != nil || again != 0 {
		t.Fatalf("with a new secret, tried again after %s, %v", again, err)
	}
	if got := s.Got(); len(got) != 1 || verify(secret, got[0], w.Clock.Now()) != nil || strings.Contains(got[0].Header.Get("webhook-signature"), " ") {
		t.Errorf("with a new secret came %v", got)
	}

	if _, err := w.Pool.Exec(w.Ctx, `UPDATE webhook SET secret = '\x00' WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	lost := w.test(&alice, id)
	for again = time.Nanosecond; again > 0; w.Clock.Advance(again) {
		if again, err = w.Webhooks.Deliver(w.Ctx, lost); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Count(`SELECT count(*) FROM notification WHERE user_id = $1 AND kind = 'WEBHOOK_DISABLED'`, alice); n != 1 || w.log(id)[0].EndedAt == nil {
		t.Errorf("she was told %d times; %+v", n, w.log(id)[0])
	}
}
