package architecture

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	codeDeclared = regexp.MustCompile(`\b[cC]ode\w+\s+(?:paidaction\.)?Code\s+= "([A-Z_]+)"`)
	codeTold     = regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)*)`")
)

// docs/api.md explains every code that a client can get, and no others. GraphQL's own codes are gqlgen's.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	known := []string{"COMPLEXITY_LIMIT_EXCEEDED", "GRAPHQL_PARSE_FAILED", "GRAPHQL_VALIDATION_FAILED"}
	for _, f := range goFiles(t) {
		if f.test || f.generated || f.dir == "lightning/wrap" { // its codes are those of rules
			continue
		}
		for _, m := range codeDeclared.FindAllStringSubmatch(f.source, -1) {
			known = append(known, m[1])
		}
	}
	_, table, _ := strings.Cut(read(t, "docs/api.md"), "## Codes")
	var told []string
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "| `") {
			continue
		}
		for _, m := range codeTold.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			told = append(told, m[1])
		}
	}
	slices.Sort(known)
	slices.Sort(told)
	if !slices.Equal(known, told) {
		t.Errorf("declared are\n%s\nexplained are\n%s", strings.Join(known, " "), strings.Join(told, " "))
	}
}

var (
	mutationDeclared = regexp.MustCompile(`(?ms)^  (\w+)(?:\(.*?\))?: [^@]*?((?: @\w+\(.*?\))+)$`)
	mutationTold     = regexp.MustCompile("`([a-z]+(?:[A-Z][a-z]+)*)`")
)

// docs/api.md says of every mutation what to do when its answer is lost, of those that cost money together.
func TestEveryLostAnswerIsExplained(t *testing.T) {
	t.Parallel()
	_, schema, _ := strings.Cut(read(t, "schema.graphql"), "type Mutation {")
	schema, _, _ = strings.Cut(schema, "\n}")
	_, table, _ := strings.Cut(read(t, "docs/api.md"), "## When an answer is lost")
	table, _, _ = strings.Cut(table, "##")
	told := map[string]bool{}
	for row := range strings.Lines(table) {
		if strings.HasPrefix(row, "| ") {
			for _, m := range mutationTold.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				told[m[1]] = true
			}
		}
	}
	declared := mutationDeclared.FindAllStringSubmatch(schema, -1)
	if len(declared) < 30 {
		t.Errorf("only %d mutations are found", len(declared))
	}
	for _, m := range declared {
		if paying := strings.Contains(m[2], "@pays"); !paying && !told[m[1]] {
			t.Errorf("nothing is said of %s", m[1])
		}
	}
}
