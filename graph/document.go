package graph

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/core"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/a-seed-a7aed72f/holdfast/graph/internal/schema"
)

// documents validates the document of a query before gqlgen does. gqlgen then finds it in the cache, where both look
// first. Its own validation has no limit: each field is compared with all others of its name, and each conflicting pair
// is an error of its own.
type documents struct {
	limits Limits
	schema *ast.Schema
	rules  *rules.Rules
	known  graphql.Cache[*ast.QueryDocument]
}

// ExtensionName is the name for gqlgen.
func (documents) ExtensionName() string { return "Documents" }

// Validate never objects.
func (documents) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters refuses a document that has too many selections, one that lacks the operation that is asked
// for, and a subscription that is too long. If a document breaks the rules, only the first fault is reported.
func (d documents) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	doc, err := d.read(ctx, params.Query)
	if err != nil || doc == nil {
		return err
	}
	if err := checkSubscription(doc, params); err != nil {
		return err
	}
	switch {
	case doc.Operations.ForName(params.OperationName) != nil:
		return nil
	case params.OperationName == "":
		return refusal(errcode.ValidationFailed, "The query has several operations: say in operationName which is meant.")
	default:
		return refusal(errcode.ValidationFailed, "operationName asks for an operation that the query does not have: %s.", params.OperationName)
	}
}

// read returns the document of a query; nil if gqlgen reports why it cannot be parsed.
func (d documents) read(ctx context.Context, query string) (*ast.QueryDocument, *gqlerror.Error) {
	if doc, known := d.known.Get(ctx, query); known {
		return doc, nil
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, d.limits.Tokens)
	if err != nil {
		return nil, nil
	}
	if len(doc.Operations) == 0 {
		return nil, refusal(errcode.ValidationFailed, "The request has no operation.")
	}
	if err := d.count(doc); err != nil {
		return nil, err
	}
	if faults := validator.ValidateWithRules(d.schema, doc, d.rules); len(faults) > 0 {
		first := faults[0]
		errcode.Set(first, errcode.ValidationFailed)
		return nil, first
	}
	d.known.Add(ctx, query, doc)
	return doc, nil
}

// mostFollowing is how many bytes a subscription may have, with its variables: far more than any of ours.
const mostFollowing = 16 << 10

// checkSubscription refuses a subscription that is larger. What other operations were asked with is soon forgotten;
// this is kept in memory for as long as the subscription lasts, and everybody may have many.
func checkSubscription(doc *ast.QueryDocument, params *graphql.RawParams) *gqlerror.Error {
	if !slices.ContainsFunc(doc.Operations, func(o *ast.OperationDefinition) bool { return o.Operation == ast.Subscription }) {
		return nil
	}
	said, err := json.Marshal([]any{params.Query, params.OperationName, params.Variables, params.Extensions})
	if err != nil || len(said) > mostFollowing {
		return refusal(string(codeBodyLimit), "A subscription can have at most %d bytes.", mostFollowing)
	}
	return nil
}

// offered is the schema without @defer: deferred results come in later parts, which none of our transports sends.
func offered() *ast.Schema {
	s := *schema.NewExecutableSchema(schema.Config{}).Schema()
	s.Directives = maps.Clone(s.Directives)
	delete(s.Directives, "defer")
	return &s
}

// longestFault is how many bytes of a fault are reported: some faults quote the query, or name everything that
// conflicts below two fields.
const longestFault = 500

func shortened(message string) string {
	if len(message) <= longestFault {
		return message
	}
	return strings.ToValidUTF8(message[:longestFault], "") + "…"
}

// rulesOf returns GraphQL's rules, each of which reports at most one fault. Only in development are suggestions looked
// for and made.
func rulesOf(development bool) *rules.Rules {
	set := rules.NewDefaultRules()
	if !development {
		for _, quiet := range []core.Rule{rules.FieldsOnCorrectTypeRuleWithoutSuggestions, rules.KnownArgumentNamesRuleWithoutSuggestions,
			rules.KnownTypeNamesRuleWithoutSuggestions, rules.ScalarLeafsRuleWithoutSuggestions, rules.ValuesOfCorrectTypeRuleWithoutSuggestions} {
			set.ReplaceRule(strings.TrimSuffix(quiet.Name, "WithoutSuggestions"), quiet.RuleFunc)
		}
	}
	for name, rule := range set.GetInner() {
		set.ReplaceRule(name, once(rule))
	}
	return set
}

func once(rule core.RuleFunc) core.RuleFunc {
	return func(observers *core.Events, addError core.AddErrFunc) {
		found := false
		rule(observers, func(options ...core.ErrorOption) {
			if !found {
				found = true
				addError(options...)
			}
		})
	}
}

// count refuses a document with too many selections. Those in a fragment count wherever it is spread and once more by
// themselves, and so do those in an inline fragment: the rules compare them each time.
func (d documents) count(doc *ast.QueryDocument) *gqlerror.Error {
	c := counter{fragments: doc.Fragments, counted: map[string]selections{}}
	total := 0
	for _, op := range doc.Operations {
		total = min(total+c.of(op.SelectionSet).compared, enough)
	}
	for _, fragment := range doc.Fragments {
		total = min(total+c.of(fragment.SelectionSet).compared, enough)
	}
	switch {
	case c.circle != "":
		return refusal(errcode.ValidationFailed, "A fragment contains itself: %s.", c.circle)
	case c.tooLong:
		return refusal(string(codeSelectionLimit), "A name in the query is too long: at most %d bytes are allowed.", longestName)
	case total > d.limits.Selections:
		return refusal(string(codeSelectionLimit), "The query has too many selections: with its fragments spread out at most %d are allowed.", d.limits.Selections)
	}
	return nil
}

// selections says how many selections are in a set, with its fragments spread out, and how many of them count as
// compared.
type selections struct{ all, compared int }

// counter counts selections, those of each fragment only once.
type counter struct {
	fragments ast.FragmentDefinitionList
	counted   map[string]selections
	circle    string // a fragment that is spread within itself, if there is one
	tooLong   bool   // a name of a field in the answer
}

// longestName is how many bytes the alias of a field may have: it is in the answer once for each thing in a list.
const longestName = 100

const enough = 1 << 40 // where counting stops; sums of a few such numbers do not overflow

func (c *counter) of(set ast.SelectionSet) (total selections) {
	for _, selection := range set {
		var below selections
		switch x := selection.(type) {
		case *ast.Field:
			c.tooLong = c.tooLong || len(x.Alias) > longestName
			below = c.of(x.SelectionSet)
		case *ast.InlineFragment:
			below = c.of(x.SelectionSet)
			below.compared += below.all
		case *ast.FragmentSpread:
			below = c.ofFragment(x.Name)
		}
		total.all = min(total.all+1+below.all, enough)
		total.compared = min(total.compared+1+below.compared, enough)
	}
	return total
}

func (c *counter) ofFragment(name string) selections {
	n, known := c.counted[name]
	if known && n.all < 0 {
		c.circle = name
	}
	fragment := c.fragments.ForName(name)
	if known || fragment == nil {
		return n
	}
	c.counted[name] = selections{all: -1} // while it is being counted
	n = c.of(fragment.SelectionSet)
	c.counted[name] = n
	return n
}
