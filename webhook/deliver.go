package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/internal/outside"
)

// schedule is the pauses between attempts. It is the example of Standard Webhooks, a little more than three days in
// all. Up to a tenth is added to each.
var schedule = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}

// What came of an attempt. The names never change their meaning.
const (
	CodeDelivered   = "DELIVERED"         // a status of 200 to 299
	CodeRefused     = "REFUSED"           // any other status, redirects included
	CodeGone        = "GONE"              // 410: the server wants no more, and the webhook is disabled
	CodeUnreachable = "UNREACHABLE"       // no connection
	CodeTimeout     = "TIMEOUT"           // no answer in time
	CodeCertificate = "CERTIFICATE"       // the server's is not trusted
	CodeForbidden   = "ADDRESS_REFUSED"   // the address leads where we call nobody
	CodeTooLarge    = "ANSWER_TOO_LARGE"  // before there was a status
	CodeUnsigned    = "SECRET_UNREADABLE" // our own secret is lost, and with it the webhook's: nothing was sent
)

// codeOf says why no answer came.
func codeOf(err error) string {
	for is, code := range map[error]string{outside.ErrTimeout: CodeTimeout, outside.ErrCertificate: CodeCertificate, outside.ErrForbidden: CodeForbidden,
		outside.ErrAddress: CodeForbidden, outside.ErrOwn: CodeForbidden, outside.ErrTooLarge: CodeTooLarge} {
		if errors.Is(err, is) {
			return code
		}
	}
	return CodeUnreachable
}

// Deliver tries a message once, and returns the pause after which it should be tried again; 0: not at all. It may be
// called at any time, any number of times: a call that is too early or too late sends nothing. An error means that
// nothing is known: try again soon.
func (w *Webhooks) Deliver(ctx context.Context, message int64) (again time.Duration, err error) {
	q := db.New(w.Pool)
	m, err := q.MessageToDeliver(ctx, message)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // its webhook was removed
	}
	if err != nil {
		return 0, fmt.Errorf("read message %d: %w", message, err)
	}
	begun := w.now()
	switch {
	case m.EndedAt != nil:
		return 0, nil
	case m.NextAt != nil && begun.Before(*m.NextAt) && possible(m.NextAt.Sub(begun)):
		return m.NextAt.Sub(begun), nil
	}
	to, err := q.GetWebhook(ctx, m.WebhookID)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read webhook %d: %w", m.WebhookID, err)
	}
	if to.DisabledAt != nil {
		return 0, q.GiveUpMessage(ctx, db.GiveUpMessageParams{ID: m.ID, At: &begun})
	}
	wait, give := w.shares.take(to, begun)
	if wait > 0 && m.QueuedAt != nil && begun.Sub(*m.QueuedAt) >= kept && w.ConfirmClock(ctx) == nil {
		return 0, w.tooSlow(ctx, m, begun)
	}
	if wait > 0 {
		return jittered(wait), nil
	}
	defer give()
	made, asked, err := w.call(ctx, to, m, begun)
	if err != nil {
		return 0, err
	}
	return w.note(ctx, m, made, asked)
}

// call makes the call. It follows no redirect. Of the answer, only the status counts, and how long the server asks to
// be left alone.
func (w *Webhooks) call(ctx context.Context, to db.Webhook, m db.MessageToDeliverRow, now time.Time) (made Attempt, asked time.Duration, err error) {
	text, err := bodyOf(m, to.UserID == nil)
	if err != nil {
		return Attempt{}, 0, fmt.Errorf("write message %d: %w", m.ID, err)
	}
	header, err := w.headers(to, m.ID, now, text)
	if err != nil { // without an end to its attempts it would keep every later action from being archived
		w.Log.ErrorContext(ctx, "a webhook cannot be told: its secret cannot be opened", "webhook", to.ID, "error", err)
		return Attempt{At: now, Code: CodeUnsigned}, 0, nil
	}
	made = Attempt{At: now, Code: CodeDelivered}
	answer, err := w.Outside.Do(ctx, outside.Request{URL: to.Url, Header: header, Body: text, Stays: true, StatusOnly: true})
	if err != nil && ctx.Err() != nil {
		return Attempt{}, 0, ctx.Err() // this process is stopping; the server is not to blame
	}
	answered := w.now()
	made.MS = max(answered.Sub(now).Milliseconds(), 0)
	if err != nil {
		made.Code = codeOf(err)
		return made, 0, nil
	}
	made.Status = &answer.Status
	switch {
	case answer.Status == http.StatusGone:
		made.Code = CodeGone
	case answer.Status < 200 || answer.Status > 299:
		made.Code = CodeRefused
	}
	return made, retryAfter(answer, answered), nil
}

// longest is how long a server is left alone at most, whatever it asks for.
const longest = 24 * time.Hour

// untried is how long after a failure nobody has tried any more: longer than any pause, jittered, and the wait for a
// place after it.
const untried = longest + longest/8

// possible reports whether anybody can have put off a try by so much: else it was put off by a clock that was wrong.
func possible(pause time.Duration) bool { return pause <= 2*longest }

// retryAfter is how long a refusing server asks to be left alone (RFC 9110 §10.2.3), in seconds or until a date; 0: it
// does not ask.
func retryAfter(answer outside.Answer, now time.Time) time.Duration {
	if answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusServiceUnavailable {
		return 0
	}
	said := answer.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(said, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longest/time.Second))) * time.Second
	}
	until, err := http.ParseTime(said)
	if err != nil {
		return 0
	}
	return min(max(until.Sub(now), 0), longest)
}

// note stores what came of an attempt, and decides what follows: the next attempt comes no sooner than the server asked
// for, nor does any other message.
func (w *Webhooks) note(ctx context.Context, m db.MessageToDeliverRow, made Attempt, asked time.Duration) (again time.Duration, err error) {
	sure := made.Code == CodeDelivered || w.ConfirmClock(ctx) == nil
	now := w.now()
	set := db.AttemptMadeParams{ID: m.ID, Before: m.Attempts, Delivered: made.Code == CodeDelivered}
	if made.Code == CodeDelivered || int(m.Attempts) >= len(schedule) {
		set.EndedAt = &now
	} else {
		again = jittered(max(schedule[m.Attempts], asked))
		set.NextAt = new(now.Add(again))
	}
	err = db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		to, err := q.LockWebhook(ctx, m.WebhookID)
		if errors.Is(err, pgx.ErrNoRows) {
			again = 0
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the webhook: %w", err)
		}
		n, err := q.AttemptMade(ctx, set)
		if err != nil || n == 0 { // another job was faster, and has stored its own
			return err
		}
		attempt := db.InsertWebhookAttemptParams{MessageID: m.ID, At: made.At, Ms: made.MS, Code: made.Code}
		if made.Status != nil {
			attempt.Status = new(int32(*made.Status))
		}
		if err := q.InsertWebhookAttempt(ctx, attempt); err != nil {
			return fmt.Errorf("write the log: %w", err)
		}
		if asked > 0 && sure {
			if err := q.LeaveWebhookAlone(ctx, db.LeaveWebhookAloneParams{ID: to.ID, Until: now.Add(asked)}); err != nil {
				return fmt.Errorf("note how long it is left alone: %w", err)
			}
		}
		return w.judge(ctx, q, to, made, now, sure)
	})
	if err != nil {
		return 0, fmt.Errorf("note an attempt of message %d: %w", m.ID, err)
	}
	return again, nil
}

// judge stores since when a webhook has been failing. It disables one that has failed for too long, or that wants no
// more, and tells its owner. Where the clock is not sure, no failure but the latter counts: a clock that is ahead would
// disable a webhook at once, and one that is behind would have the others do so. Nor does time count in which nobody
// tried: no process ran, or there was nothing to tell.
func (w *Webhooks) judge(ctx context.Context, q *db.Queries, to db.Webhook, made Attempt, now time.Time, sure bool) error {
	if made.Code == CodeDelivered {
		return q.WebhookFails(ctx, db.WebhookFailsParams{ID: to.ID})
	}
	if !sure && made.Code != CodeGone {
		return nil
	}
	since := now
	if to.FailingSince != nil && to.FailedAt != nil && now.Sub(*to.FailedAt) <= untried {
		since = *to.FailingSince
	}
	if err := q.WebhookFails(ctx, db.WebhookFailsParams{ID: to.ID, FailingSince: &since, FailedAt: &now}); err != nil {
		return fmt.Errorf("note since when it fails: %w", err)
	}
	if to.DisabledAt != nil || made.Code != CodeGone && now.Sub(since) < tolerated {
		return nil
	}
	return w.disable(ctx, q, to, now, "a webhook is disabled: it has failed for too long, or its server wants no more", "code", made.Code)
}

// tooSlow gives up a message that has waited for a place for as long as messages are kept, and disables its webhook:
// more is written for its owner than their servers take. Such messages would become ever more, and as long as one is
// there, no later action is archived.
func (w *Webhooks) tooSlow(ctx context.Context, m db.MessageToDeliverRow, now time.Time) error {
	err := db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		to, err := q.LockWebhook(ctx, m.WebhookID)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock the webhook: %w", err)
		}
		if err := q.GiveUpMessage(ctx, db.GiveUpMessageParams{ID: m.ID, At: &now}); err != nil || to.DisabledAt != nil {
			return err
		}
		return w.disable(ctx, q, to, now, "a webhook is disabled: its server takes less than there is to tell")
	})
	if err != nil {
		return fmt.Errorf("give up message %d: %w", m.ID, err)
	}
	return nil
}

// disable disables a webhook and tells its owner.
func (w *Webhooks) disable(ctx context.Context, q *db.Queries, to db.Webhook, now time.Time, why string, about ...any) error {
	level := slog.LevelWarn
	if to.UserID != nil { // the owner's own doing, and they are told
		level = slog.LevelInfo
	}
	w.Log.Log(ctx, level, why, append(about, "webhook", to.ID)...)
	if err := q.DisableWebhook(ctx, db.DisableWebhookParams{ID: to.ID, At: &now}); err != nil {
		return fmt.Errorf("disable it: %w", err)
	}
	if to.UserID == nil {
		return nil // the operator reads the log
	}
	return q.NotifyOfWebhook(ctx, db.NotifyOfWebhookParams{UserID: *to.UserID, At: now})
}

// jittered adds up to a tenth to a pause, so that messages that failed together are not retried together.
func jittered(pause time.Duration) time.Duration {
	return pause + time.Duration(rand.Float64()*float64(pause)/10)
}

// Queue makes jobs for messages that were written, and reports whether there may be more. If a process dies, another
// one takes up what it leaves behind. Where a user has very many messages, their jobs are due one after the other: the
// others' come in between.
func (w *Webhooks) Queue(ctx context.Context) (found bool, err error) {
	const page = 500
	var rows []db.NewMessagesRow
	err = db.InTransaction(ctx, w.Pool, func(tx *db.Transaction) error {
		q := db.New(tx)
		rows, err = q.NewMessages(ctx, page)
		if err != nil || len(rows) == 0 {
			return err
		}
		found = len(rows) == page
		now, ids, due := w.now(), make([]int64, len(rows)), make([]time.Time, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
			if row.Owner == operator {
				continue
			}
			if wait := w.shares.line(row.Owner, now); wait > 0 {
				due[i] = now.Add(wait)
			}
		}
		if err := q.QueueMessages(ctx, db.QueueMessagesParams{Ids: ids, At: &now}); err != nil {
			return err
		}
		return w.Jobs.InsertDeliveries(ctx, tx, ids, due)
	})
	if err != nil {
		w.shares.forget(rows)
		return false, fmt.Errorf("make jobs of messages: %w", err)
	}
	return found, nil
}

// Sweep deletes old messages and their log, and reports whether there may be more. What ended in the future did so by a
// clock that was ahead, and would keep every later action from being archived until then.
func Sweep(ctx context.Context, q *db.Queries, now time.Time) (found bool, err error) {
	const page = 1000
	ended, err := q.EndMessagesNow(ctx, db.EndMessagesNowParams{Now: &now, After: new(now.Add(time.Hour)), Page: page})
	if err != nil {
		return false, fmt.Errorf("end messages of the future: %w", err)
	}
	n, err := q.DeleteMessages(ctx, db.DeleteMessagesParams{Before: new(now.Add(-kept)), Page: page})
	if err != nil {
		return false, fmt.Errorf("delete old messages: %w", err)
	}
	return max(n, ended) == page, nil
}
