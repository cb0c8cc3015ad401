package graph

import (
	"context"
	"fmt"
	"strconv"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// gate checks a query before anything is done for it.
type gate struct{ *resolver }

// ExtensionName is the name for gqlgen.
func (gate) ExtensionName() string { return "Gate" }

// Validate never objects.
func (gate) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters counts an operation on a websocket, and checks that its key is still good. It does so
// before the query is even parsed: a query that cannot be parsed costs something, too. A single request was already
// counted at the door.
func (g gate) MutateOperationParameters(ctx context.Context, _ *graphql.RawParams) *gqlerror.Error {
	s := sessionOf(ctx)
	if s.slots == nil {
		return nil
	}
	err := g.meters.asking(s, g.Now())
	if err == nil {
		err = g.recheck(ctx, s, 0)
	}
	if err != nil {
		return g.present(ctx, err)
	}
	return nil
}

// MutateOperationContext refuses what exceeds the limits. gqlgen's own check of the complexity follows.
func (g gate) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if err := checkNumbers(op.Doc); err != nil {
		return err
	}
	sizes := measure{spread: map[string]size{}, needs: map[string]bool{}}
	root := sizes.of(op.Operation.SelectionSet)
	asker := sessionOf(ctx)
	switch {
	case sizes.introspects && !g.Development:
		return refusal(errcode.ValidationFailed, "The schema is not shown here; it is in schema.graphql.")
	case root.depth > g.Limits.Depth && !sizes.introspects:
		return refusal(string(codeDepthLimit), "The query is %d fields deep; at most %d are allowed.", root.depth, g.Limits.Depth)
	case op.Operation.Operation == ast.Query && root.own > g.Limits.Queries:
		return refusal(string(codeQueryLimit), "A request can ask for at most %d top-level fields.", g.Limits.Queries)
	case op.Operation.Operation == ast.Mutation && root.own > g.Limits.Mutations:
		return refusal(string(codeMutationLimit), "A request can have at most %d mutations.", g.Limits.Mutations)
	case op.Operation.Operation == ast.Subscription && asker.slots == nil && asker.line.cut == nil:
		return refusal(string(paidaction.CodeInvalidInput), "Subscribe over a websocket, or by POST with the header Accept: text/event-stream.")
	case op.Operation.Operation == ast.Subscription && len(graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})) != 1:
		return refusal(errcode.ValidationFailed, "A subscription follows one thing: ask for exactly one field, and do not skip it.")
	}
	if err := checkScopes(ctx, sizes.needs); err != nil {
		return g.present(ctx, err)
	}
	return nil
}

func refusal(code, format string, args ...any) *gqlerror.Error {
	return &gqlerror.Error{Message: fmt.Sprintf(format, args...), Extensions: map[string]any{"code": code}}
}

// size is the size of a selection with its fragments spread out.
type size struct {
	own   int // fields of the selection itself
	depth int
}

// measure computes sizes, that of each fragment once. Circles and excessive size were refused when the document was
// read.
type measure struct {
	spread      map[string]size
	needs       map[string]bool // scopes that the key must have
	introspects bool
}

func (m *measure) of(set ast.SelectionSet) size {
	var total size
	for _, selection := range set {
		var s size
		switch x := selection.(type) {
		case *ast.Field:
			below := m.of(x.SelectionSet)
			s = size{own: 1, depth: 1 + below.depth}
			if x.Name == "__schema" || x.Name == "__type" {
				m.introspects = true
			}
			m.needs[scopeOf(x.Definition)] = true
		case *ast.InlineFragment:
			s = m.of(x.SelectionSet)
		case *ast.FragmentSpread:
			var known bool
			if s, known = m.spread[x.Name]; !known {
				s = m.of(x.Definition.SelectionSet)
				m.spread[x.Name] = s
			}
		}
		total.own += s.own
		total.depth = max(total.depth, s.depth)
	}
	return total
}

// checkNumbers refuses numbers in the query that no type can hold: gqlgen would panic on them.
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
		return refusal(string(paidaction.CodeInvalidAmount), "The number %s… is too large.", v.Raw[:min(len(v.Raw), 20)])
	}
	for _, child := range v.Children {
		if err := checkNumber(child.Value); err != nil {
			return err
		}
	}
	return nil
}
