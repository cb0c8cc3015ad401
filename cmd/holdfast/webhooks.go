package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// newWebhooks makes the webhooks of users and of the operator. In development they may be on this machine.
func newWebhooks(e *environment, pool *pgxpool.Pool, jobs webhook.Jobs, confirmClock func(context.Context) error) (*webhook.Webhooks, error) {
	return webhook.New(webhook.Config{Pool: pool, Jobs: jobs, Secret: e.config.Key(), Log: e.log, ConfirmClock: confirmClock,
		Outside: outside.New(outside.Config{AllowPrivate: e.config.Development, Own: e.config.PublicURL.URL()})})
}

type webhooksCommand struct {
	Add    webhooksAdd    `cmd:"" changes:"" help:"Add a webhook that is told of everybody's actions. Its signing secret is shown only this once."`
	List   webhooksList   `cmd:"" help:"List the operator's webhooks."`
	Enable webhooksEnable `cmd:"" changes:"" help:"Enable a webhook that was disabled, and send it a test."`
	Rotate webhooksRotate `cmd:"" changes:"" help:"Make a new signing secret. It is shown only this once; for a day those before it sign too."`
	Remove webhooksRemove `cmd:"" changes:"" help:"Remove one of the operator's webhooks."`
}

// withWebhooks runs do with the webhooks of this database, under the secret that the service has.
func withWebhooks(ctx context.Context, e *environment, do func(*webhook.Webhooks) error) error {
	if err := checked(e); err != nil {
		return err
	}
	return withDatabase(ctx, e, func(pool *pgxpool.Pool, q *db.Queries) error {
		if err := sameSecret(ctx, q, e.config.Key()); err != nil {
			return err
		}
		all, err := newWebhooks(e, pool, nil, nil)
		if err != nil {
			return err
		}
		return do(all)
	})
}

type webhooksAdd struct {
	URL    string   `arg:"" secret:"but host" help:"The server's URL: https://…"`
	Events []string `help:"The events it is told of, such as action.paid,payout.failed; all if left out."`
}

func (c webhooksAdd) Run(ctx context.Context, e *environment) error {
	return withWebhooks(ctx, e, func(all *webhook.Webhooks) error {
		made, secret, err := all.Create(ctx, nil, c.URL, c.Events, nil)
		if err != nil {
			return refusedArguments(err)
		}
		return e.print(struct {
			ID     int64  `json:"id"`
			Secret string `json:"secret"`
		}{made.ID, secret}, func(t *table) {
			t.row("webhook", made.ID)
			t.row("secret", secret)
		})
	})
}

type webhooksList struct{}

func (webhooksList) Run(ctx context.Context, e *environment) error {
	return withWebhooks(ctx, e, func(all *webhook.Webhooks) error {
		list, err := all.List(ctx, nil)
		if err != nil {
			return err
		}
		return e.print(list, func(t *table) {
			t.row("ID", "URL", "EVENTS", "STATE")
			for _, w := range list {
				state := "told"
				if w.DisabledAt != nil {
					state = "disabled"
				} else if w.FailingSince != nil {
					state = "failing"
				}
				events := strings.Join(w.Events, " ")
				if events == "" {
					events = "all"
				}
				t.row(w.ID, w.URL, events, state)
			}
		})
	})
}

type webhooksEnable struct {
	ID int64 `arg:"" help:"The webhook's number."`
}

func (c webhooksEnable) Run(ctx context.Context, e *environment) error {
	return withWebhooks(ctx, e, func(all *webhook.Webhooks) error {
		if _, err := all.Enable(ctx, nil, c.ID, true, nil); err != nil {
			return noSuchWebhook(c.ID, err)
		}
		if _, err := all.Test(ctx, nil, c.ID); err != nil {
			return err
		}
		return e.print(map[string]int64{"enabled": c.ID}, func(t *table) { t.row(fmt.Sprintf("Webhook %d is enabled; a test message is on its way.", c.ID)) })
	})
}

type webhooksRotate struct {
	ID int64 `arg:"" help:"The webhook's number."`
}

func (c webhooksRotate) Run(ctx context.Context, e *environment) error {
	return withWebhooks(ctx, e, func(all *webhook.Webhooks) error {
		_, secret, err := all.Rotate(ctx, nil, c.ID, nil)
		if err != nil {
			return noSuchWebhook(c.ID, err)
		}
		return e.print(map[string]string{"secret": secret}, func(t *table) { t.row("secret", secret) })
	})
}

func noSuchWebhook(id int64, err error) error {
	if errors.Is(err, paidaction.Refused(paidaction.CodeNotFound)) {
		return fmt.Errorf("there is no webhook %d: holdfast webhooks list shows those that there are", id)
	}
	return err
}

type webhooksRemove struct {
	ID int64 `arg:"" help:"The webhook's number."`
}

func (c webhooksRemove) Run(ctx context.Context, e *environment) error {
	return withWebhooks(ctx, e, func(all *webhook.Webhooks) error {
		if err := all.Remove(ctx, nil, c.ID, nil); err != nil {
			return noSuchWebhook(c.ID, err)
		}
		return e.print(map[string]int64{"removed": c.ID}, func(t *table) { t.row(fmt.Sprintf("Webhook %d is removed.", c.ID)) })
	})
}
