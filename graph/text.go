package graph

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// textsAtOnce is how many texts of items are read by one query: the longest are 160 KB each.
const textsAtOnce = 50

// answerSize is what there is in memory of the present answer of an operation. An answer is made as a whole, several
// times over, and stays until its reader has taken it. The number of its fields says nothing about their length: some
// hundred comments of the longest kind would else be an answer of a gigabyte, which ends the process, and anybody may
// ask for it, or for many that are shorter and take none of them.
type answerSize struct {
	unread *slots // bytes of all that an asker has not taken
	who    string

	mu    sync.Mutex
	text  int64 // how many more bytes of text the answer may hold
	bytes int   // as JSON
	taken int   // of the asker's
	gone  bool  // nothing is sent any more
}

// alwaysAnswered is how many bytes of each answer, and of each mutation in it, an asker has in any case: what a
// mutation says of a payment is never refused because of other answers. More is taken in such pieces.
const alwaysAnswered = 16 << 10

// begin begins the next answer: the one before was sent.
func (s *answerSize) begin(text int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free()
	s.text = text
}

// beginMutation lets a mutation be answered, however much those before it have used: it will have been done by then.
// What they have used counts from now on, even if it is too much: nobody shall have ten times as much uncounted.
func (s *answerSize) beginMutation() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	s.text = max(s.text, alwaysAnswered)
	if over := s.bytes - s.taken; over > 0 {
		s.unread.add(s.who, over)
		s.taken += over
	}
}

func (s *answerSize) free() {
	s.unread.free(s.who, s.taken)
	s.bytes, s.taken = 0, 0
}

// leave gives back what the last answer had.
func (s *answerSize) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free()
	s.gone = true
}

// grow counts what becomes part of the answer, or refuses it.
func (s *answerSize) grow(bytes, text int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return context.Canceled
	}
	if s.text -= int64(text); s.text < 0 {
		return paidaction.Errorf(codeTextLimit, "There is more text in this than one answer can hold. Ask for fewer things at a time.")
	}
	if over := s.bytes + bytes - s.taken - alwaysAnswered; over > 0 {
		piece := max(over, alwaysAnswered)
		if !s.unread.take(s.who, piece) {
			return errUnread()
		}
		s.taken += piece
	}
	s.bytes += bytes
	return nil
}

// errorBytes is about how many bytes an error has in an answer.
const errorBytes = 300

// end counts what the answer has become, with what no field has counted.
func (s *answerSize) end(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return
	}
	if over := bytes - s.taken - alwaysAnswered; over > 0 {
		s.unread.add(s.who, over)
		s.taken += over
	}
}

func errUnread() error {
	return paidaction.Errorf(codeOperationLimit, "Too much that you have asked for is still on its way to you. Wait until it has come.")
}

type answerKey struct{}

// answerOf is nil for what was refused before it began.
func answerOf(ctx context.Context) *answerSize {
	size, _ := ctx.Value(answerKey{}).(*answerSize)
	return size
}

// aroundAnswers counts the answers of an operation. Over HTTP the last one was sent when the request is over; on a
// websocket when the next one is asked for: its reader can end the operation before that.
func (r *resolver) aroundAnswers(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	s := sessionOf(ctx)
	if r.unread.full(s.who()) {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{r.present(ctx, errUnread())}})
	}
	size := &answerSize{unread: r.unread, who: s.who()}
	if s.slots == nil {
		context.AfterFunc(ctx, size.leave)
	}
	respond := next(context.WithValue(ctx, answerKey{}, size))
	return func(ctx context.Context) *graphql.Response {
		size.begin(r.Limits.Text)
		response := respond(ctx)
		if response != nil {
			size.end(len(response.Data) + len(response.Errors)*errorBytes)
		}
		return response
	}
}

// aroundField counts each field of an answer.
func aroundField(ctx context.Context, next graphql.Resolver) (any, error) {
	value, err := next(ctx)
	if err != nil {
		return value, err
	}
	var text string
	switch said := value.(type) {
	case string:
		text = said
	case *string:
		if said != nil {
			text = *said
		}
	}
	if err := answerOf(ctx).grow(len(graphql.GetFieldContext(ctx).Field.Alias)+inJSON(text), len(text)); err != nil {
		return nil, err
	}
	return value, nil
}

// inJSON is about how many bytes a text has in an answer, with what comes between it and the next one.
func inJSON(text string) (bytes int) {
	bytes = len(text) + 8
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			bytes++
		case c < ' ', c == '<', c == '>', c == '&':
			bytes += 5
		}
	}
	return bytes
}
