package graph_test

import (
	"slices"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/paidaction"
)

// The names in the API are those of the state machine (spec 01 §1.2), in its order. A test in paidaction compares the
// database's names.
func TestSchemaKnowsTheSameNames(t *testing.T) {
	t.Parallel()
	parsed := parsedSchema(t)
	values := func(enum string) (names []string) {
		for _, v := range parsed.Types[enum].EnumValues {
			names = append(names, v.Name)
		}
		return names
	}
	if got := values("ActionState"); !slices.Equal(got, texts(paidaction.States)) {
		t.Errorf("states in the schema: %v", got)
	}
	if got := values("PaymentMethod"); !slices.Equal(got, texts(paidaction.Methods)) {
		t.Errorf("methods in the schema: %v", got)
	}
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
