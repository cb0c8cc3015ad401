package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/a-seed-a7aed72f/holdfast/community"
	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/internal/db"
	"github.com/a-seed-a7aed72f/holdfast/ledger"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// streams are what a history is merged from. The rows of each stream are read by id, so that no index by time is
// needed. A place in the history is a place in each of them.
var streams = []string{"OUT", "CREDITS", "SATS", "DIRECT"}

// historyPlace is the last id shown from each stream, or one more than the first to be shown.
type historyPlace [4]int64

var historyTop = historyPlace{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}

// String is the place as clients send it back.
func (p historyPlace) String() string {
	parts := make([]string, len(p))
	for i, id := range p {
		parts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(parts, "-")
}

func parseHistoryPlace(text string) (historyPlace, error) {
	var place historyPlace
	parts := strings.Split(text, "-")
	if len(parts) != len(place) {
		return place, errHistoryPlace()
	}
	for i, part := range parts {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return place, errHistoryPlace()
		}
		place[i] = id
	}
	return place, nil
}

func errHistoryPlace() error {
	return paidaction.Errorf(paidaction.CodeInvalidInput, "For after, send what you got as next.")
}

// History is resolved only for its owner.
func (r mes) History(ctx context.Context, me *schema.Me, first int, after *string) (*schema.HistoryPage, error) {
	if err := r.Limits.checkList(first); err != nil {
		return nil, err
	}
	place := historyTop
	if after != nil {
		var err error
		if place, err = parseHistoryPlace(*after); err != nil {
			return nil, err
		}
	}
	user := me.User.ID
	rows, err := r.reads().HistoryOf(ctx, db.HistoryOfParams{UserID: user, Page: int32(first) + 1,
		Credits: int64(ledger.UserCredits(user)), Sats: int64(ledger.UserSats(user)),
		OutBefore: place[0], CreditsBefore: place[1], SatsBefore: place[2], DirectBefore: place[3]})
	if err != nil {
		return nil, fmt.Errorf("read a history: %w", err)
	}
	page := &schema.HistoryPage{}
	page.Nodes = merge(rows, first, &place)
	if len(rows) > first {
		page.Next = new(place.String())
	}
	return page, nil
}

// merge returns the newest rows of all streams, and moves the place behind them. From each stream it takes rows from
// the start, without a gap. Of a stream that it takes none from, the place moves to its first row: what comes later is
// newer than what was shown.
func merge(rows []db.HistoryOfRow, most int, place *historyPlace) []*db.HistoryOfRow {
	heads := make([][]db.HistoryOfRow, len(streams))
	for _, row := range rows {
		s := slices.Index(streams, row.Stream)
		heads[s] = append(heads[s], row)
	}
	for s, stream := range heads {
		slices.SortFunc(stream, func(a, b db.HistoryOfRow) int { return cmp.Compare(b.ID, a.ID) })
		place[s] = 0 // it has ended
		if len(stream) > 0 {
			place[s] = stream[0].ID + 1
		}
	}
	var merged []*db.HistoryOfRow
	for len(merged) < most {
		newest := -1
		for s, stream := range heads {
			if len(stream) > 0 && (newest < 0 || stream[0].At.After(heads[newest][0].At)) {
				newest = s
			}
		}
		if newest < 0 {
			break
		}
		merged = append(merged, &heads[newest][0])
		place[newest] = heads[newest][0].ID
		heads[newest] = heads[newest][1:]
	}
	return merged
}

func (r historyEntries) Action(ctx context.Context, h *db.HistoryOfRow) (schema.PaidAction, error) {
	if h.Stream != "OUT" {
		return nil, nil
	}
	return r.showOwn(ctx, h.ID)
}

// Received is the entry itself, if it is about incoming money.
func (historyEntries) Received(_ context.Context, h *db.HistoryOfRow) (*db.HistoryOfRow, error) {
	if h.Stream == "OUT" {
		return nil, nil
	}
	return h, nil
}

func (receipts) Asset(_ context.Context, h *db.HistoryOfRow) (schema.Asset, error) {
	if h.Stream == "CREDITS" {
		return schema.AssetCredits, nil
	}
	return schema.AssetSats, nil
}

func (receipts) Direct(_ context.Context, h *db.HistoryOfRow) (bool, error) {
	return h.Stream == "DIRECT", nil
}

func (receipts) Kind(_ context.Context, h *db.HistoryOfRow) (*string, error) {
	if h.Kind == "" {
		return nil, nil
	}
	return &h.Kind, nil
}

func (receipts) Item(ctx context.Context, h *db.HistoryOfRow) (*db.ItemsByIDRow, error) {
	return loadIf(ctx, loadersOf(ctx).items, h.ItemID)
}

func (receipts) Sender(_ context.Context, h *db.HistoryOfRow) (*community.Sender, error) {
	if h.Sender == nil {
		return nil, nil
	}
	sender := new(community.Sender)
	if err := json.Unmarshal(h.Sender, sender); err != nil {
		return nil, fmt.Errorf("read the sender of a payment: %w", err)
	}
	return sender, nil
}
