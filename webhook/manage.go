package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

func errNoSuch() error {
	return paidaction.Errorf(paidaction.CodeNotFound, "You have no such webhook.")
}

// Owner is the owner of webhooks: a user, or nil for the operator.
type Owner *int64

// Create registers a server for these events, or for all if there are none. The secret is never shown again.
//
// The caller's right to it may end while it waits for its turn. So may is asked in the transaction that stores the
// webhook, and its error is returned; nil where the right cannot end.
//
// Errors: INVALID_INPUT.
func (w *Webhooks) Create(ctx context.Context, owner Owner, url string, events []string, may func(context.Context, *db.Queries) error) (Webhook, string, error) {
	at, err := w.Outside.Parse(url)
	if err != nil || len(url) > 2000 || at.Scheme != "https" && at.Scheme != "http" {
		return Webhook{}, "", paidaction.Errorf(paidaction.CodeInvalidInput, "This address cannot be called: send one that begins with https:// and contains no user name.")
	}
	events = slices.Compact(slices.Sorted(slices.Values(events)))
	if i := slices.IndexFunc(events, func(e string) bool { return !slices.Contains(Events, e) }); i >= 0 {
		return Webhook{}, "", paidaction.Errorf(paidaction.CodeInvalidInput, "There is no such event. The events are: %s.", strings.Join(Events, ", "))
	}
	if events == nil {
		events = []string{}
	}
	var made Webhook
	var secret string
	err = db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		if owner != nil {
			if _, err := q.LockUser(ctx, *owner); err != nil {
				return fmt.Errorf("lock the user: %w", err)
			}
		}
		rows, err := q.WebhooksOf(ctx, owner)
		if err != nil {
			return fmt.Errorf("read webhooks: %w", err)
		}
		if len(rows) >= most {
			return paidaction.Errorf(paidaction.CodeInvalidInput, "You have %d webhooks, which is the most there can be. Remove one first.", len(rows))
		}
		id, err := q.NextWebhookID(ctx)
		if err != nil {
			return fmt.Errorf("number a webhook: %w", err)
		}
		var sealed []byte
		secret, sealed = w.newSecret(id)
		made = Webhook{ID: id, URL: url, Events: events, CreatedAt: w.now()}
		err = q.InsertWebhook(ctx, db.InsertWebhookParams{ID: id, UserID: owner, Url: url, Events: events, Secret: sealed, At: made.CreatedAt})
		if err != nil {
			return fmt.Errorf("store a webhook: %w", err)
		}
		return allowed(ctx, q, may)
	})
	return made, secret, err
}

// allowed is the answer of may; nil where there is none to ask.
func allowed(ctx context.Context, q *db.Queries, may func(context.Context, *db.Queries) error) error {
	if may == nil {
		return nil
	}
	return may(ctx, q)
}

// List returns an owner's webhooks, oldest first.
func (w *Webhooks) List(ctx context.Context, owner Owner) ([]Webhook, error) {
	rows, err := db.New(w.Pool).WebhooksOf(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	list := make([]Webhook, len(rows))
	for i, row := range rows {
		list[i] = shown(row)
	}
	return list, nil
}

// Rotate replaces the secret; the new one is never shown again. For a day, messages are signed with the earlier
// secrets, too. may is as in Create. NOT_FOUND if the webhook is not the owner's.
func (w *Webhooks) Rotate(ctx context.Context, owner Owner, id int64, may func(context.Context, *db.Queries) error) (Webhook, string, error) {
	var row db.Webhook
	var secret string
	err := db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) (err error) {
		q := db.New(tx)
		if _, err = q.LockWebhook(ctx, id); err == nil {
			row, err = q.WebhookOf(ctx, db.WebhookOfParams{ID: id, UserID: owner})
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoSuch()
		}
		if err != nil {
			return fmt.Errorf("read a webhook: %w", err)
		}
		var sealed []byte
		secret, sealed = w.newSecret(id)
		now := w.now()
		set := db.RotateWebhookParams{ID: id, Secret: sealed, PreviousUntil: new(now.Add(overlap))}
		set.Former, set.FormerUntil = stillSigning(row, now)
		if len(set.Former) > mostFormer {
			set.Former, set.FormerUntil = set.Former[:mostFormer], set.FormerUntil[:mostFormer]
		}
		if err := q.RotateWebhook(ctx, set); err != nil {
			return fmt.Errorf("store a webhook's secret: %w", err)
		}
		return allowed(ctx, q, may)
	})
	if err != nil {
		return Webhook{}, "", err
	}
	return shown(row), secret, nil
}

// Enable switches a webhook on or off. What happens while it is off is not delivered later. may is as in Create.
// NOT_FOUND if it is not the owner's.
func (w *Webhooks) Enable(ctx context.Context, owner Owner, id int64, enabled bool, may func(context.Context, *db.Queries) error) (Webhook, error) {
	set := db.EnableWebhookParams{ID: id, UserID: owner}
	if !enabled {
		set.DisabledAt = new(w.now())
	}
	var row db.Webhook
	err := db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) (err error) {
		q := db.New(tx)
		if err := q.EnableWebhook(ctx, set); err != nil {
			return fmt.Errorf("enable a webhook: %w", err)
		}
		row, err = q.WebhookOf(ctx, db.WebhookOfParams{ID: id, UserID: owner})
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoSuch()
		}
		if err != nil {
			return fmt.Errorf("read a webhook: %w", err)
		}
		return allowed(ctx, q, may)
	})
	return shown(row), err
}

// Remove deletes a webhook with its secret, its messages and its log. NOT_FOUND if it is not the owner's.
//
// There may be millions of messages. While one statement deletes a webhook, everybody who writes a message for it
// waits: every payment, if it is the operator's. So no step that begins from now on writes to it, and its messages are
// deleted a page at a time before the webhook itself. If that is interrupted, the webhook is left disabled, and can be
// removed again.
//
// may is as in Create, and asked before the first message is deleted.
func (w *Webhooks) Remove(ctx context.Context, owner Owner, id int64, may func(context.Context, *db.Queries) error) error {
	if _, err := w.Enable(ctx, owner, id, false, may); err != nil {
		return err
	}
	const page = 1000
	q := db.New(w.Pool)
	for {
		n, err := q.DeleteMessagesOf(ctx, db.DeleteMessagesOfParams{WebhookID: id, Page: page})
		if err != nil {
			return fmt.Errorf("remove a webhook's messages: %w", err)
		}
		if n < page {
			break
		}
	}
	if err := q.DeleteWebhook(ctx, db.DeleteWebhookParams{ID: id, UserID: owner}); err != nil {
		return fmt.Errorf("remove a webhook: %w", err)
	}
	return nil
}

// Test sends a message that reports nothing, and returns at once.
//
// Errors: NOT_FOUND if the webhook is not the owner's, INVALID_INPUT if it is disabled.
func (w *Webhooks) Test(ctx context.Context, owner Owner, id int64) (Message, error) {
	q := db.New(w.Pool)
	hook, err := q.WebhookOf(ctx, db.WebhookOfParams{ID: id, UserID: owner})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Message{}, errNoSuch()
	case err != nil:
		return Message{}, fmt.Errorf("read a webhook: %w", err)
	case hook.DisabledAt != nil: // the message would be given up at once
		return Message{}, paidaction.Errorf(paidaction.CodeInvalidInput, "This webhook is disabled. Enable it first.")
	}
	message, err := q.InsertTestMessage(ctx, db.InsertTestMessageParams{WebhookID: id, Type: testType, At: w.now()})
	if errors.Is(err, pgx.ErrNoRows) { // removed meanwhile
		return Message{}, errNoSuch()
	}
	if err != nil {
		return Message{}, fmt.Errorf("store a test: %w", err)
	}
	return w.message(ctx, owner, message)
}

// Redeliver sends a message once more under the same id, whether it was delivered or given up. It returns at once.
//
// A message is kept for as long as when it has just ended, and an action with a message is not archived, nor is any
// later one. So what is older than that is not sent again: one owner could have nothing archived for ever.
//
// Errors: NOT_FOUND if it is not the owner's, DUPLICATE while it is still being delivered, INVALID_INPUT if it is too
// old.
func (w *Webhooks) Redeliver(ctx context.Context, owner Owner, message int64) (Message, error) {
	m, err := w.message(ctx, owner, message)
	if err != nil {
		return Message{}, err
	}
	if w.now().Sub(m.CreatedAt) >= kept {
		return Message{}, paidaction.Errorf(paidaction.CodeInvalidInput, "This message is too old: it can be delivered again for %d days after it was written.", kept/(24*time.Hour))
	}
	n, err := db.New(w.Pool).Redeliver(ctx, message)
	if err != nil {
		return Message{}, fmt.Errorf("deliver a message again: %w", err)
	}
	if n == 0 {
		return Message{}, paidaction.Errorf(paidaction.CodeDuplicate, "This message is still being delivered.")
	}
	return w.message(ctx, owner, message)
}

func (w *Webhooks) message(ctx context.Context, owner Owner, id int64) (Message, error) {
	row, err := db.New(w.Pool).MessageOf(ctx, db.MessageOfParams{ID: id, UserID: owner})
	if errors.Is(err, pgx.ErrNoRows) {
		return Message{}, paidaction.Errorf(paidaction.CodeNotFound, "You have no such message.")
	}
	if err != nil {
		return Message{}, fmt.Errorf("read a message: %w", err)
	}
	list := []Message{messageOf(row)}
	err = w.addAttempts(ctx, list)
	return list[0], err
}

// Messages returns the messages of a webhook, newest first, with what became of them. The caller must have found the
// webhook for its owner.
func (w *Webhooks) Messages(ctx context.Context, webhook, before int64, page int32) ([]Message, error) {
	rows, err := db.New(w.Pool).MessagesOf(ctx, db.MessagesOfParams{WebhookID: webhook, Before: before, Page: page})
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	list := make([]Message, len(rows))
	for i, row := range rows {
		list[i] = messageOf(row)
	}
	return list, w.addAttempts(ctx, list)
}

func messageOf(row db.WebhookMessage) Message {
	if row.Type == receivedType {
		row.ActionID = nil // it is the payer's
	}
	return Message{ID: row.ID, Type: row.Type, Action: row.ActionID, CreatedAt: row.CreatedAt, NextAttemptAt: row.NextAt, EndedAt: row.EndedAt, Delivered: row.Delivered}
}

func (w *Webhooks) addAttempts(ctx context.Context, list []Message) error {
	ids := make([]int64, len(list))
	for i, m := range list {
		ids[i] = m.ID
	}
	rows, err := db.New(w.Pool).AttemptsOf(ctx, db.AttemptsOfParams{Messages: ids, Most: shownAttempts})
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	for _, row := range rows {
		m := &list[slices.Index(ids, row.MessageID)]
		a := Attempt{At: row.At, MS: row.Ms, Code: row.Code}
		if row.Status != nil {
			a.Status = new(int(*row.Status))
		}
		m.Attempts = append(m.Attempts, a)
	}
	return nil
}
