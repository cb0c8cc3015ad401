package graph

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
)

func (q queries) Notifications(ctx context.Context, first int, after *int64) (*schema.NotificationPage, error) {
	if err := q.Limits.checkList(first); err != nil {
		return nil, err
	}
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := q.reads().NotificationsOf(ctx, db.NotificationsOfParams{UserID: user, Before: orElse(after, math.MaxInt64), Page: int32(first) + 1})
	if err != nil {
		return nil, fmt.Errorf("read notifications: %w", err)
	}
	page := &schema.NotificationPage{}
	rows, page.Next = cut(rows, first, func(n db.Notification) int64 { return n.ID })
	for _, row := range rows {
		page.Nodes = append(page.Nodes, &row)
	}
	return page, nil
}

func (notifications) Item(ctx context.Context, n *db.Notification) (*db.ItemsByIDRow, error) {
	return loadIf(ctx, loadersOf(ctx).items, n.ItemID)
}

// Action is nil if somebody else paid for what the notification is about, or if nobody did.
func (r notifications) Action(ctx context.Context, n *db.Notification) (schema.PaidAction, error) {
	if n.ActionID == nil {
		return nil, nil
	}
	return r.showOwn(ctx, *n.ActionID)
}

func (r notifications) RetryUntil(ctx context.Context, n *db.Notification) (*time.Time, error) {
	if n.ActionID == nil {
		return nil, nil
	}
	pa, err := loadersOf(ctx).payments.Load(ctx, *n.ActionID)
	if pa == nil || err != nil {
		return nil, err
	}
	return r.Engine.RetryUntil(pa), nil
}

func (m mutations) NotificationsSeen(ctx context.Context, upTo int64) (*schema.Me, error) {
	user, err := signedIn(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.writes().MarkNotificationsSeen(ctx, db.MarkNotificationsSeenParams{UserID: user, UpTo: upTo}); err != nil {
		return nil, fmt.Errorf("mark notifications as seen: %w", err)
	}
	return m.me(ctx, &user)
}

// mostUnseen is where counting notifications stops.
const mostUnseen = 100

func (r mes) UnseenNotifications(ctx context.Context, me *schema.Me) (int, error) {
	n, err := r.reads().CountUnseenNotifications(ctx, db.CountUnseenNotificationsParams{UserID: me.User.ID, Most: mostUnseen})
	if err != nil {
		return 0, fmt.Errorf("count unseen notifications: %w", err)
	}
	return int(n), nil
}
