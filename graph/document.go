package graph

import (
	"context"
	"maps"
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

// documents reads the document of a query before gqlgen does, which then finds it where both look first. gqlgen would hold any document
// against the schema: for each field that takes as long as there are others of its name, and each two that do not agree are an error.
type documents struct {
	limits Limits
	schema *ast.Schema
	rules  *rules.Rules
	known  graphql.Cache[*ast.QueryDocument]
}

// ExtensionName names it to gqlgen.
func (documents) ExtensionName() string { return "Documents" }

// Validate has nothing to object to.
func (documents) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters refuses a document that has too many selections, and of one that breaks the rules it tells the first fault.
func (d documents) MutateOperationParameters(ctx context.Context, params *graphql.RawParams) *gqlerror.Error {
	if _, known := d.known.Get(ctx, params.Query); known {
		return nil
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: params.Query}, d.limits.Tokens)
	if err != nil || len(doc.Operations) == 0 {
		return nil // gqlgen says so
	}
	if err := d.count(doc); err != nil {
		return err
	}
	if faults := validator.ValidateWithRules(d.schema, doc, d.rules); len(faults) > 0 {
		first := faults[0]
		errcode.Set(first, errcode.ValidationFailed)
		first.Message = shortened(first.Message)
		return first
	}
	d.known.Add(ctx, params.Query, doc)
	return nil
}

// offered is the schema without @defer: what is deferred comes in later parts, which no transport of ours sends.
func offered() *ast.Schema {
	s := *schema.NewExecutableSchema(schema.Config{}).Schema()
	s.Directives = maps.Clone(s.Directives)
	delete(s.Directives, "defer")
	return &s
}

// longestFault is how much is told of a fault, in bytes: some quote the query, or name all that does not agree below two fields.
const longestFault = 500

func shortened(message string) string {
	if len(message) <= longestFault {
		return message
	}
	return strings.ToValidUTF8(message[:longestFault], "") + "…"
}

// rulesOf are those of GraphQL, each of which finds one fault at most. What somebody may have meant is looked for, and told, in
// development alone.
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

// count refuses a document whose selections are too many. Those of a fragment count wherever it is spread, and once more by themselves, as
// those of an inline fragment do: the rules compare them each time.
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
		return refusal(errcode.ValidationFailed, "The fragment %s contains itself.", shortened(c.circle))
	case total > d.limits.Selections:
		return refusal(string(codeSelectionLimit), "The query has too many selections: with its fragments spread out at most %d are allowed.", d.limits.Selections)
	}
	return nil
}

// selections are how many there are in a set, with its fragments spread out, and how many are compared.
type selections struct{ all, compared int }

// counter counts selections, each fragment's once.
type counter struct {
	fragments ast.FragmentDefinitionList
	counted   map[string]selections
	circle    string // a fragment that is spread within itself
}

const enough = 1 << 40 // where counting stops: sums of a few such numbers do not overflow

func (c *counter) of(set ast.SelectionSet) (total selections) {
	for _, selection := range set {
		var below selections
		switch x := selection.(type) {
		case *ast.Field:
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
	c.counted[name] = selections{all: -1} // for as long as it is being counted
	n = c.of(fragment.SelectionSet)
	c.counted[name] = n
	return n
}
