package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// Codes of this package, besides those of paidaction and gqlgen's GRAPHQL_VALIDATION_FAILED, GRAPHQL_PARSE_FAILED and
// COMPLEXITY_LIMIT_EXCEEDED. They never change their meaning either.
const (
	codeBodyLimit      paidaction.Code = "BODY_LIMIT_EXCEEDED"
	codeSelectionLimit paidaction.Code = "SELECTION_LIMIT_EXCEEDED"
	codeDepthLimit     paidaction.Code = "DEPTH_LIMIT_EXCEEDED"
	codeTextLimit      paidaction.Code = "TEXT_LIMIT_EXCEEDED"
	codeQueryLimit     paidaction.Code = "QUERY_LIMIT_EXCEEDED"
	codeMutationLimit  paidaction.Code = "MUTATION_LIMIT_EXCEEDED"
	codeOperationLimit paidaction.Code = "OPERATION_LIMIT_EXCEEDED" // too many at once on one connection
	codeTimeLimit      paidaction.Code = "TIME_LIMIT_EXCEEDED"
)

// present is the only way for an error to leave this package. Refusals are told as they are, and so is what gqlgen says
// about the query itself. Any other error is our fault: clients get only a number to ask about.
func (r *resolver) present(ctx context.Context, err error) *gqlerror.Error {
	var located *gqlerror.Error
	isLocated := errors.As(err, &located)
	out := &gqlerror.Error{Path: graphql.GetPath(ctx)}
	if isLocated {
		out.Locations = located.Locations
		if located.Path != nil {
			out.Path = located.Path
		}
	}
	var tooLarge *strconv.NumError
	switch refusal, isRefusal := paidaction.AsRefusal(err); {
	case isRefusal:
		if cause := refusal.Unwrap(); cause != nil {
			r.Log.Log(ctx, refusal.Level(), "a refusal with a cause", "code", refusal.Code, "error", cause)
		}
		out = coded(out, refusal.Code, refusal.Message)
		if refusal.Cost > 0 {
			out.Extensions["costMsat"] = strconv.FormatInt(int64(refusal.Cost), 10)
		}
		if refusal.Successor != nil {
			out.Extensions["successorId"] = strconv.FormatInt(*refusal.Successor, 10)
		}
		return out
	case errors.As(err, &tooLarge):
		return coded(out, paidaction.CodeInvalidAmount, "A number in the request is too large.")
	case isLocated && located.Err == nil && located.Extensions["code"] != nil:
		// From gqlgen, about the query, before anything was done.
		located.Path, located.Message = out.Path, sentence(located)
		return located
	case errors.Is(err, context.DeadlineExceeded):
		return coded(out, codeTimeLimit, "This took too long and was given up. Check whether it was done; with an idempotency key you can safely send it again.")
	case errors.Is(err, context.Canceled):
		// The client has gone.
		return coded(out, paidaction.CodeTryAgain, "The request was given up.")
	}
	var f *fault
	if !errors.As(err, &f) {
		f = newFault()
		r.Log.ErrorContext(ctx, "a request failed", "fault", f.id, "path", out.Path.String(), "error", err)
	}
	out = coded(out, paidaction.CodeInternal, fmt.Sprintf("Something went wrong on our side. Try again; if it keeps happening, ask about %s.", f.id))
	out.Extensions["fault"] = f.id
	return out
}

// sentence makes a whole sentence of what gqlgen says about a query. Which variable it speaks of is only in the path.
func sentence(e *gqlerror.Error) string {
	said := e.Message
	switch code := e.Extensions["code"]; {
	case code == errcode.ParseFailed:
		said = "The query cannot be read: " + said
	case code == "COMPLEXITY_LIMIT_EXCEEDED":
		said = "The query asks for too much at once: " + said
	case len(e.Path) > 1 && e.Path[0] == ast.PathName("variable"):
		said = "The variable " + e.Path[1:].String() + ": " + said
	}
	if said = shortened(said); strings.TrimRight(said, ".?…") == said {
		said += "."
	}
	return said
}

func coded(e *gqlerror.Error, code paidaction.Code, message string) *gqlerror.Error {
	e.Message, e.Extensions = message, map[string]any{"code": string(code)}
	return e
}

// fault is an error that has been logged already, under this number.
type fault struct{ id string }

func newFault() *fault { return &fault{rand.Text()[:12]} }

func (f *fault) Error() string { return "fault " + f.id }

// recovered turns a panic into a fault.
func (r *resolver) recovered(ctx context.Context, panicked any) error {
	f := newFault()
	r.Log.ErrorContext(ctx, "a request panicked", "fault", f.id, "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	return f
}
