package graph

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Limits bound what one request can ask for. The zero value of each stands for its default.
type Limits struct {
	Body       int64         // bytes of a request or of a websocket message; default 64 KiB
	Tokens     int           // of a query; default 2,000
	Depth      int           // of nested fields; default 15
	Complexity int           // fields, those in lists as often as the list is long; default 10,000
	List       int           // length of a page; default 100
	Mutations  int           // in one request; default 10
	Operations int           // at once on one websocket; default 50
	Time       time.Duration // of a query or a request's mutations; default 30 seconds
}

func (l *Limits) defaults() error {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
	}
	if l.Body == 0 {
		l.Body = 64 << 10
	}
	set(&l.Tokens, 2000)
	set(&l.Depth, 15)
	set(&l.Complexity, 10_000)
	set(&l.List, 100)
	set(&l.Mutations, 10)
	set(&l.Operations, 50)
	if l.Time == 0 {
		l.Time = 30 * time.Second
	}
	if min(l.Tokens, l.Depth, l.Complexity, l.List, l.Mutations, l.Operations) < 0 || l.Body < 0 || l.Time < 0 {
		return errors.New("graph: a limit must be above zero")
	}
	return nil
}

// checkList refuses pages that are empty or too long.
func (l Limits) checkList(first int) error {
	if first < 1 || first > l.List {
		return paidaction.Errorf(paidaction.CodeInvalidInput, "Ask for 1 to %d at a time.", l.List)
	}
	return nil
}

// complexity makes a page count as often as it is long.
func (r *resolver) complexity() schema.ComplexityRoot {
	var c schema.ComplexityRoot
	times := func(child, first int) int { return 1 + child*min(max(first, 1), r.Limits.List) }
	c.Query.Items = func(child, first int, _ *int64) int { return times(child, first) }
	c.Query.PaidActions = c.Query.Items
	c.Query.Notifications = c.Query.Items
	c.Item.Comments = c.Query.Items
	return c
}

// aroundOperation bounds how many operations a connection has under way, how long they take, and for how long after its
// revocation a key opens a connection.
func (r *resolver) aroundOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	s := sessionOf(ctx)
	refuse := func(err error) graphql.ResponseHandler {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{r.present(ctx, err)}})
	}
	if err := r.recheck(ctx, s); err != nil {
		return refuse(err)
	}
	if s.slots != nil {
		select {
		case s.slots <- struct{}{}:
			context.AfterFunc(ctx, func() { <-s.slots })
		default:
			return refuse(paidaction.Errorf(codeOperationLimit, "At most %d operations may be under way on one connection.", r.Limits.Operations))
		}
	}
	if graphql.GetOperationContext(ctx).Operation.Operation == ast.Subscription {
		return next(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limits.Time)
	respond, answered := next(ctx), false
	return func(ctx context.Context) *graphql.Response {
		defer cancel()
		response := respond(ctx)
		if response == nil && !answered {
			// Time was up before it began, and gqlgen has no answer then.
			response = &graphql.Response{Errors: gqlerror.List{r.present(ctx, context.Cause(ctx))}}
		}
		answered = true
		return response
	}
}

// gate looks at a query before anything is done for it.
type gate struct {
	Limits
	development bool
}

// ExtensionName names it to gqlgen.
func (gate) ExtensionName() string { return "Gate" }

// Validate has nothing to object to.
func (gate) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationContext refuses what is beyond the limits. gqlgen's own count of the complexity follows: it visits a
// fragment as often as it is spread, which can be exponentially often, and so the number of fields is bounded here first.
func (g gate) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if err := checkNumbers(op.Doc); err != nil {
		return err
	}
	sizes := measure{spread: map[string]size{}}
	root := sizes.of(op.Operation.SelectionSet)
	switch {
	case sizes.introspects && !g.development:
		return refusal(errcode.ValidationFailed, "The schema is not shown here; it is in schema.graphql.")
	case root.depth > g.Depth && !sizes.introspects:
		return refusal(string(codeDepthLimit), "The query is %d fields deep; at most %d are allowed.", root.depth, g.Depth)
	case root.fields > g.Complexity:
		return refusal("COMPLEXITY_LIMIT_EXCEEDED", "The query asks for more than %d fields.", g.Complexity)
	case op.Operation.Operation == ast.Mutation && root.own > g.Mutations:
		return refusal(string(codeMutationLimit), "A request may hold at most %d mutations.", g.Mutations)
	}
	return nil
}

func refusal(code, format string, args ...any) *gqlerror.Error {
	return &gqlerror.Error{Message: fmt.Sprintf(format, args...), Extensions: map[string]any{"code": code}}
}

// size is how large a selection is with its fragments spread out.
type size struct {
	own    int // fields of the selection itself
	fields int // with all below
	depth  int
}

// measure computes sizes, each fragment's once. Cycles were refused by the validation.
type measure struct {
	spread      map[string]size
	introspects bool
}

const enough = 1 << 40 // where counting stops: sums of two such numbers do not overflow

func (m *measure) of(set ast.SelectionSet) size {
	var total size
	for _, selection := range set {
		var s size
		switch x := selection.(type) {
		case *ast.Field:
			below := m.of(x.SelectionSet)
			s = size{own: 1, fields: 1 + below.fields, depth: 1 + below.depth}
			if x.Name == "__schema" || x.Name == "__type" {
				m.introspects = true
			}
		case *ast.InlineFragment:
			s = m.of(x.SelectionSet)
		case *ast.FragmentSpread:
			var known bool
			if s, known = m.spread[x.Name]; !known {
				s = m.of(x.Definition.SelectionSet)
				m.spread[x.Name] = s
			}
		}
		total.own = min(total.own+s.own, enough)
		total.fields = min(total.fields+s.fields, enough)
		total.depth = max(total.depth, s.depth)
	}
	return total
}

// checkNumbers refuses numbers in the query that no type can hold; gqlgen would panic at them.
func checkNumbers(doc *ast.QueryDocument) *gqlerror.Error {
	for _, op := range doc.Operations {
		if err := numbersIn(op.SelectionSet); err != nil {
			return err
		}
	}
	for _, fragment := range doc.Fragments {
		if err := numbersIn(fragment.SelectionSet); err != nil {
			return err
		}
	}
	return nil
}

func numbersIn(set ast.SelectionSet) *gqlerror.Error {
	for _, selection := range set {
		var below ast.SelectionSet
		switch x := selection.(type) {
		case *ast.Field:
			for _, arg := range x.Arguments {
				if err := checkNumber(arg.Value); err != nil {
					return err
				}
			}
			below = x.SelectionSet
		case *ast.InlineFragment:
			below = x.SelectionSet
		}
		if err := numbersIn(below); err != nil {
			return err
		}
	}
	return nil
}

func checkNumber(v *ast.Value) *gqlerror.Error {
	var err error
	switch v.Kind {
	case ast.IntValue:
		_, err = strconv.ParseInt(v.Raw, 10, 64)
	case ast.FloatValue:
		_, err = strconv.ParseFloat(v.Raw, 64)
	}
	if err != nil {
		return refusal(string(paidaction.CodeInvalidAmount), "The number %s… is too large.", strings.TrimSpace(v.Raw[:min(len(v.Raw), 20)]))
	}
	for _, child := range v.Children {
		if err := checkNumber(child.Value); err != nil {
			return err
		}
	}
	return nil
}
