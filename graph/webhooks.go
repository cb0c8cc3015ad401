package graph

import (
	"context"
	"math"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/webhook"
)

// calling is signedIn for mutations that call the user's server.
func (m mutations) calling(ctx context.Context) (int64, error) {
	user, err := signedIn(ctx)
	if err == nil {
		err = m.meters.paying(sessionOf(ctx), m.Now())
	}
	return user, err
}

func (m mutations) WebhookCreate(ctx context.Context, url string, events []string) (*schema.WebhookSecret, error) {
	user, err := m.calling(ctx)
	if err != nil {
		return nil, err
	}
	free, err := m.writing.take(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	return secretOf(m.Webhooks.Create(ctx, &user, url, events, m.holdKey))
}

func (m mutations) WebhookRotate(ctx context.Context, id int64) (*schema.WebhookSecret, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	free, err := m.writing.take(ctx)
	if err != nil {
		return nil, err
	}
	defer free()
	return secretOf(m.Webhooks.Rotate(ctx, &user, id, m.holdKey))
}

func secretOf(w webhook.Webhook, secret string, err error) (*schema.WebhookSecret, error) {
	if err != nil {
		return nil, err
	}
	return &schema.WebhookSecret{Webhook: &w, Secret: secret}, nil
}

func (m mutations) WebhookEnable(ctx context.Context, id int64, enabled bool) (*webhook.Webhook, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointer(inTurn(ctx, m.writing, func() (webhook.Webhook, error) { return m.Webhooks.Enable(ctx, &user, id, enabled, m.holdKey) }))
}

func (m mutations) WebhookRemove(ctx context.Context, id int64) ([]*webhook.Webhook, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointers(inTurn(ctx, m.writing, func() ([]webhook.Webhook, error) {
		if err := m.Webhooks.Remove(ctx, &user, id, m.holdKey); err != nil {
			return nil, err
		}
		return m.Webhooks.List(ctx, &user)
	}))
}

func (m mutations) WebhookTest(ctx context.Context, id int64) (*webhook.Message, error) {
	user, err := m.calling(ctx)
	if err != nil {
		return nil, err
	}
	return pointer(m.Webhooks.Test(ctx, &user, id))
}

func (m mutations) WebhookRedeliver(ctx context.Context, message int64) (*webhook.Message, error) {
	user, err := m.calling(ctx)
	if err != nil {
		return nil, err
	}
	return pointer(m.Webhooks.Redeliver(ctx, &user, message))
}

func (q queries) Webhooks(ctx context.Context) ([]*webhook.Webhook, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	return pointers(inTurn(ctx, q.reading, func() ([]webhook.Webhook, error) { return q.resolver.Webhooks.List(ctx, &user) }))
}

// Messages is resolved only for webhooks that were found for their owner.
func (r webhooks) Messages(ctx context.Context, w *webhook.Webhook, first int, after *int64) (*schema.WebhookMessagePage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	rows, err := inTurn(ctx, r.reading, func() ([]webhook.Message, error) {
		return r.resolver.Webhooks.Messages(ctx, w.ID, orElse(after, math.MaxInt64), int32(first)+1)
	})
	if err != nil {
		return nil, err
	}
	page := &schema.WebhookMessagePage{}
	rows, page.Next = cut(rows, first, func(m webhook.Message) int64 { return m.ID })
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

// Action is the owner's action: users are told only of their own.
func (r webhookMessages) Action(ctx context.Context, m *webhook.Message) (schema.PaidAction, error) {
	if m.Action == nil {
		return nil, nil
	}
	return r.showOwn(ctx, *m.Action)
}
