package web_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// What people have done and are notified of is shown in plain words, not by its name in the API.
func TestThePageHasAWordForEverything(t *testing.T) {
	t.Parallel()
	find := func(file, what string) string {
		t.Helper()
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(what).FindSubmatch(raw)
		if found == nil {
			t.Fatalf("%s has no %s", file, what)
		}
		return string(found[1])
	}
	names := find("src/wallet.tsx", `(?s)const names: [^=]*= \{(.*?)\n\}`)
	for _, d := range community.Actions(community.Settings{}) {
		if kind := d.Spec().Kind; !regexp.MustCompile(`\b` + kind + `: '`).MatchString(names) {
			t.Errorf("%s has no name in web/src/wallet.tsx", kind)
		}
	}
	source := find("src/notifications.tsx", `(?s)(.*)`)
	for _, kind := range regexp.MustCompile(`[A-Z_]{2,}`).FindAllString(find("../schema.graphql", `(?s)type Notification \{.*?"""(.*?)"""\s*kind: String!`), -1) {
		if !strings.Contains(source, kind+": '") && !strings.Contains(source, "kind === '"+kind+"'") {
			t.Errorf("%s has no words in web/src/notifications.tsx", kind)
		}
	}
}
