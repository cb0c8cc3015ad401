package graph_test

import (
	"fmt"
	"testing"
	"time"
)

// Owners see since when their webhook fails, when it was disabled, and what becomes of each message.
func TestWebhooksShowWhatBecomesOfThem(t *testing.T) {
	t.Parallel()
	a := serve(t)
	owner := a.Person("owner", 0, 0)
	created := a.Want(owner, `mutation { webhookCreate(url: "https://owner.example") { webhook { id failingSince disabledAt } } }`, nil)
	if created.at("webhookCreate", "webhook", "failingSince") != nil || created.at("webhookCreate", "webhook", "disabledAt") != nil {
		t.Errorf("a new webhook: %s", created.Raw)
	}
	tested := a.Want(owner, `mutation($id: ID!) { webhookTest(id: $id) { nextAttemptAt endedAt delivered attempts { code } } }`,
		vars{"id": created.text("webhookCreate", "webhook", "id")})
	if want := `{"data":{"webhookTest":{"nextAttemptAt":null,"endedAt":null,"delivered":false,"attempts":[]}}}`; tested.Raw != want {
		t.Errorf("a new message: %s", tested.Raw)
	}
	at := func(hours int) string {
		return a.Clock.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	}
	a.exec(fmt.Sprintf(`UPDATE webhook SET failing_since = '%s'`, at(-80)))
	a.exec(fmt.Sprintf(`UPDATE webhook_message SET next_at = '%s'`, at(1)))
	const ask = `{ webhooks { failingSince disabledAt messages { nodes { nextAttemptAt endedAt } } } }`
	want := fmt.Sprintf(`{"data":{"webhooks":[{"failingSince":%q,"disabledAt":null,"messages":{"nodes":[{"nextAttemptAt":%q,"endedAt":null}]}}]}}`, at(-80), at(1))
	if failing := a.Want(owner, ask, nil); failing.Raw != want {
		t.Errorf("it fails: %s, not %s", failing.Raw, want)
	}
	a.exec(fmt.Sprintf(`UPDATE webhook SET disabled_at = '%s'`, at(-8)))
	a.exec(fmt.Sprintf(`UPDATE webhook_message SET next_at = NULL, ended_at = '%s'`, at(-7)))
	want = fmt.Sprintf(`{"data":{"webhooks":[{"failingSince":%q,"disabledAt":%q,"messages":{"nodes":[{"nextAttemptAt":null,"endedAt":%q}]}}]}}`, at(-80), at(-8), at(-7))
	if given := a.Want(owner, ask, nil); given.Raw != want {
		t.Errorf("it was given up: %s, not %s", given.Raw, want)
	}
}
