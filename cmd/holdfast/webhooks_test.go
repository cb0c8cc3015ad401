package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/pgtest"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// An operator adds webhooks about everybody and can list them, but never sees their signing secrets again.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	env := settings(pool)
	code, out, said := command(t, env, "webhooks", "add", "https://operator.example/hook", "--events=action.paid,payout.failed")
	var made struct {
		ID     int64
		Secret string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != exitOK || !strings.HasPrefix(made.Secret, "whsec_") {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	for _, args := range [][]string{{"https://operator.example", "--events=nonsense"}, {"ftp://operator.example"}, {}} {
		if code, out, _ := command(t, env, append([]string{"webhooks", "add"}, args...)...); code != exitUsage || out != "" {
			t.Errorf("webhooks add %v: exit code %d\n%s", args, code, out)
		}
	}
	if code, out, said := command(t, env, "webhooks", "enable", fmt.Sprint(made.ID)); code != exitOK || !strings.Contains(out, fmt.Sprintf(`"enabled": %d`, made.ID)) {
		t.Errorf("webhooks enable: exit code %d\n%s%s", code, out, said)
	}
	var tests int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM webhook_message WHERE type = 'webhook.test' AND webhook_id = $1`, made.ID).Scan(&tests); err != nil || tests != 1 {
		t.Errorf("%d tests are on their way, %v", tests, err)
	}
	code, out, said = command(t, env, "webhooks", "list")
	var list []webhook.Webhook
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != exitOK || len(list) != 1 || list[0].ID != made.ID || strings.Contains(out, made.Secret) {
		t.Errorf("exit code %d, %v\n%s%s", code, err, out, said)
	}
	code, out, said = command(t, env, "webhooks", "rotate", fmt.Sprint(made.ID))
	var rotated struct{ Secret string }
	if err := json.Unmarshal([]byte(out), &rotated); err != nil || code != exitOK || !strings.HasPrefix(rotated.Secret, "whsec_") || rotated.Secret == made.Secret {
		t.Errorf("webhooks rotate: exit code %d, %v\n%s%s", code, err, out, said)
	}
	for _, want := range []int{exitOK, exitFailed} {
		code, out, said := command(t, env, "webhooks", "remove", fmt.Sprint(made.ID))
		if code != want || strings.Contains(out, fmt.Sprintf(`"removed": %d`, made.ID)) != (want == exitOK) {
			t.Errorf("webhooks remove: exit code %d, want %d\n%s%s", code, want, out, said)
		}
	}
}

// With another secret than the service's a webhook would be stored whose messages it could never sign: all would fail.
func TestAWebhookIsAddedWithTheServicesSecret(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	secret := func(digits string) []string { return settings(pool, "HOLDFAST_SECRET="+strings.Repeat(digits, 32)) }
	serve(t, secret("ab")).stop()
	code, out, said := command(t, secret("cd"), "webhooks", "add", "https://operator.example/hook")
	if code != exitUsage || out != "" || !strings.Contains(said, "HOLDFAST_SECRET") {
		t.Errorf("exit code %d, want %d\n%s%s", code, exitUsage, out, said)
	}
	if code, out, said := command(t, secret("ab"), "webhooks", "list"); code != exitOK || strings.TrimSpace(out) != "[]" {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
	if code, out, said := command(t, secret("ab"), "webhooks", "add", "https://operator.example/hook"); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, said)
	}
}

// Only in development may a webhook be on this machine, and have an address without TLS. It is never the service itself.
func TestWebhooksThatCannotBe(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const here = "https://holdfast.example"
	for _, c := range []struct {
		development, url string
		want             int
	}{
		{"0", "https://operator.example/hook", exitOK},
		{"0", "http://127.0.0.1:8080/hook", exitUsage},
		{"1", "http://127.0.0.1:8080/hook", exitOK},
		{"0", here + "/hook", exitUsage},
		{"1", here + "/hook", exitUsage},
	} {
		env := settings(pool, "HOLDFAST_DEVELOPMENT="+c.development, "HOLDFAST_SECRET="+strings.Repeat("ab", 32), "HOLDFAST_PUBLIC_URL="+here)
		if code, out, said := command(t, env, "webhooks", "add", c.url); code != c.want {
			t.Errorf("development %s, %s: exit code %d, want %d\n%s%s", c.development, c.url, code, c.want, out, said)
		}
	}
}
