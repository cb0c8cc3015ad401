package graph

import (
	"context"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// textsAtOnce is how many texts of items are read by one query: the longest are 160 KB each.
const textsAtOnce = 50

// textLeft is how many more bytes of text an answer may hold. It is made in memory as a whole, several times over, and
// the number of its fields says nothing about their length: some hundred comments of the longest kind would else be an
// answer of a gigabyte, which ends the process, and anybody may ask for it.
type textLeft struct{ bytes atomic.Int64 }

// take counts text that becomes part of the answer, or refuses it.
func (t *textLeft) take(bytes int) error {
	if t.bytes.Add(-int64(bytes)) < 0 {
		return paidaction.Errorf(codeTextLimit, "There is more text in this than one answer can hold. Ask for fewer things at a time.")
	}
	return nil
}

type textKey struct{}

func textOfAnswer(ctx context.Context) *textLeft { return ctx.Value(textKey{}).(*textLeft) }

// withText begins an answer.
func (r *resolver) withText(ctx context.Context) context.Context {
	left := &textLeft{}
	left.bytes.Store(r.Limits.Text)
	return context.WithValue(ctx, textKey{}, left)
}

// aroundField counts each text of an answer.
func aroundField(ctx context.Context, next graphql.Resolver) (any, error) {
	value, err := next(ctx)
	if err != nil {
		return value, err
	}
	switch text := value.(type) {
	case string:
		err = textOfAnswer(ctx).take(len(text))
	case *string:
		if text != nil {
			err = textOfAnswer(ctx).take(len(*text))
		}
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}
