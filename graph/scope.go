package graph

import (
	"context"
	"net/http"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// What a key may be good for. schema.graphql says what each scope allows, and with @needs which one a field requires.
// The names never change their meaning.
const (
	ScopeRead     = "READ"
	ScopeSpend    = "SPEND"
	ScopeWithdraw = "WITHDRAW"
	ScopeSettings = "SETTINGS"
)

// Scopes are all scopes.
var Scopes = []string{ScopeRead, ScopeSpend, ScopeWithdraw, ScopeSettings}

// may refuses with FORBIDDEN what the session's key is not good for. A session without a key has no scopes, but is not
// refused here.
func (s *session) may(scope string) error {
	if s.user == nil || slices.Contains(s.scopes, scope) {
		return nil
	}
	return refused(http.StatusForbidden, paidaction.CodeForbidden, "This key does not have the scope "+scope+". Nothing was done. Use a key that has it.")
}

// viewer is the user as whom a request sees things; nil sees what everybody sees.
func (s *session) viewer() *int64 {
	if s.may(ScopeRead) != nil {
		return nil
	}
	return s.user
}

// checkScopes refuses an operation if any of its fields, at any depth, needs a scope that the key lacks. It does so
// before anything is done.
func checkScopes(ctx context.Context, needed map[string]bool) error {
	for _, scope := range Scopes {
		if !needed[scope] {
			continue
		}
		if err := sessionOf(ctx).may(scope); err != nil {
			return err
		}
	}
	return nil
}

// scopeOf is the scope that a field needs, as the schema declares; empty if none.
func scopeOf(field *ast.FieldDefinition) string {
	needs := field.Directives.ForName("needs")
	if needs == nil {
		return ""
	}
	return needs.Arguments.ForName("scope").Value.Raw
}
