package architecture

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2"
	gqlast "github.com/vektah/gqlparser/v2/ast"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
	code     = regexp.MustCompile("(?s)```.*?```|`[^`]+`")
	filePath = regexp.MustCompile(`(?:[\w.-]+/)*[\w.-]*\w\.(?:go|sql|md|yml|yaml|graphql|conf|mod)\b`)
	command  = regexp.MustCompile(`\b(holdfast-dev|holdfast|make)((?: [a-z][a-z0-9-]*)+)`)
	setting  = regexp.MustCompile(`HOLDFAST_[A-Z_]*[A-Z]`)
)

// documents are the pages that people read, and the repository's programs that call make.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no page in docs, error %v", err)
	}
	names := []string{"README.md", "CHANGELOG.md", "BENCHMARKS.md"}
	for _, page := range pages {
		names = append(names, "docs/"+filepath.Base(page))
	}
	return names
}

// anchors are the names under which a page's headings are linked to.
func anchors(page string) []string {
	var names []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return names
}

func exists(file string) bool {
	_, err := os.Stat(filepath.Join(top, file))
	return err == nil
}

func TestDocumentsNameWhatExists(t *testing.T) {
	t.Parallel()
	targets := makeTargets(t)
	programs := map[string]subcommands{
		"holdfast":     subcommandsOf(t, "cmd/holdfast", "cli"),
		"holdfast-dev": subcommandsOf(t, "cmd/holdfast-dev", "commands"),
	}
	settings := settingNames(t)
	for _, name := range documents(t) {
		text := read(t, name)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, anchored := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			page := name
			if target != "" {
				page = path.Join(path.Dir(name), target)
			}
			if !exists(page) || anchored && !slices.Contains(anchors(read(t, page)), anchor) {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
		for _, span := range code.FindAllString(text, -1) {
			for _, file := range filePath.FindAllString(span, -1) {
				if !exists(file) && !strings.Contains(text, " file="+file+"\n") { // a file that the page tells the reader to write
					t.Errorf("%s names %s, which does not exist", name, file)
				}
			}
			for _, m := range command.FindAllStringSubmatch(span, -1) {
				words := strings.Fields(m[2])
				if m[1] == "make" {
					if !slices.Contains(targets, words[0]) {
						t.Errorf("%s names make %s, which does not exist", name, words[0])
					}
				} else if bad := programs[m[1]].unknown(words); bad != "" {
					t.Errorf("%s names %s%s: there is no %s", name, m[1], m[2], bad)
				}
			}
			for _, s := range setting.FindAllString(span, -1) {
				if !slices.Contains(settings, s) {
					t.Errorf("%s names the setting %s, which does not exist", name, s)
				}
			}
		}
	}
}

// TestDocumentsAskWhatTheSchemaAnswers validates each operation in the documents; each is on one line.
func TestDocumentsAskWhatTheSchemaAnswers(t *testing.T) {
	t.Parallel()
	schema, err := gqlparser.LoadSchema(&gqlast.Source{Name: "schema.graphql", Input: read(t, "schema.graphql")})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, name := range documents(t) {
		for _, block := range regexp.MustCompile("(?s)```graphql\n(.*?)```").FindAllStringSubmatch(read(t, name), -1) {
			for line := range strings.Lines(block[1]) {
				asked++
				if _, err := gqlparser.LoadQueryWithRules(schema, line, nil); err != nil {
					t.Errorf("%s asks %s%v", name, line, err)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("no operation was found: does this test still look at the right place?")
	}
}

// TestContinuousIntegrationCallsWhatExists also checks that it runs the README's test command.
func TestContinuousIntegrationCallsWhatExists(t *testing.T) {
	t.Parallel()
	targets, called := makeTargets(t), []string{}
	for _, m := range regexp.MustCompile(`(?m)^stage make (\S+)$`).FindAllStringSubmatch(read(t, ".ci/run"), -1) {
		if called = append(called, m[1]); !slices.Contains(targets, m[1]) {
			t.Errorf(".ci/run calls make %s, which does not exist", m[1])
		}
	}
	for _, must := range []string{"lint", "check-generated", "test", "demo"} {
		if !slices.Contains(called, must) {
			t.Errorf(".ci/run does not call make %s", must)
		}
	}
}

// An entry of the changelog says what there is, its setting, and which page has the rest.
func TestEntriesOfTheChangelogAreShort(t *testing.T) {
	t.Parallel()
	const most = 350 // characters
	entries := regexp.MustCompile(`(?m)^- .*(?:\n  .*)*`).FindAllString(read(t, "CHANGELOG.md"), -1)
	for _, entry := range entries {
		entry = strings.Join(strings.Fields(entry[len("- "):]), " ")
		if n := utf8.RuneCountInString(entry); n > most {
			t.Errorf("this entry of the changelog has %d characters, and should have %d at most: %s", n, most, entry)
		}
	}
	if len(entries) == 0 {
		t.Error("no entry was found: does this test still look at the right place?")
	}
}

func makeTargets(t *testing.T) []string {
	t.Helper()
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):([^=]|$)`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, m[1])
	}
	return targets
}

// subcommands are those of a program, with their own subcommands. One without any takes arguments.
type subcommands map[string]subcommands

func (s subcommands) unknown(words []string) string {
	for _, word := range words {
		if len(s) == 0 {
			return ""
		}
		next, ok := s[word]
		if !ok {
			return word
		}
		s = next
	}
	return ""
}

// subcommandsOf reads the commands of a program from the tags of its types.
func subcommandsOf(t *testing.T, dir, root string) subcommands {
	t.Helper()
	types := map[string]*ast.StructType{}
	for _, f := range goFiles(t) {
		if f.dir != dir || f.test {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if fields, ok := spec.Type.(*ast.StructType); ok {
					types[spec.Name.Name] = fields
				}
			}
			return true
		})
	}
	var of func(name string) subcommands
	of = func(name string) subcommands {
		found := subcommands{}
		if types[name] == nil {
			return found
		}
		for _, field := range types[name].Fields.List {
			if field.Tag == nil || len(field.Names) == 0 {
				continue
			}
			tag, err := strconv.Unquote(field.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := reflect.StructTag(tag).Lookup("cmd"); !ok {
				continue
			}
			called := reflect.StructTag(tag).Get("name")
			if called == "" {
				called = kebab(field.Names[0].Name)
			}
			found[called] = of(field.Type.(*ast.Ident).Name)
		}
		return found
	}
	found := of(root)
	if len(found) == 0 {
		t.Fatalf("%s has no command in type %s", dir, root)
	}
	return found
}

// kebab is how a field's name reads on the command line.
func kebab(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// settingNames are the environment variables of the service's flags, and those that the code spells out.
func settingNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		names = append(names, setting.FindAllString(f.source, -1)...)
		if f.dir != "internal/config" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || len(field.Names) == 0 {
				return true
			}
			variable := strings.ReplaceAll(kebab(field.Names[0].Name), "-", "_")
			names = append(names, "HOLDFAST_"+strings.ToUpper(variable))
			return true
		})
	}
	return names
}
