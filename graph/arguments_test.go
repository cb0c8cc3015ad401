package graph_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// ofPaying are the arguments that belong to the payment rather than to the action.
var ofPaying = []string{"idempotencyKey", "paymentMethod", "maxCostSats", "secret"}

// elsewhere are arguments that do not come from this API: the server that renews territories sets them, and wallets
// that pay an address.
var elsewhere = []string{"TERRITORY_BILLING renews", "RECEIVE sender", "RECEIVE described"}

// Arguments reach the action only by their names. One that the action does not know is silently dropped: what a person
// says would be missing from what they pay for. So the action must know each of them, and the schema must have all of
// the action's.
func TestArgumentsAreKnownToTheirActions(t *testing.T) {
	t.Parallel()
	parsed := parsedSchema(t)
	takes := map[string]reflect.Type{} // by kind
	for _, d := range community.Actions(community.Settings{}) {
		perform, _ := reflect.TypeOf(d).Field(0).Type.MethodByName("Perform") // a definition holds an Action[A, R]
		takes[d.Spec().Kind] = perform.Type.In(2)
	}
	asked := map[string]map[string]bool{}
	for _, f := range parsed.Mutation.Fields {
		pays := f.Directives.ForName("pays")
		if pays == nil {
			continue
		}
		kind := pays.Arguments.ForName("kind").Value.Raw
		if takes[kind] == nil {
			t.Errorf("%s pays for %s, which is no action", f.Name, kind)
			continue
		}
		if asked[kind] == nil {
			asked[kind] = map[string]bool{}
		}
		for _, a := range f.Arguments {
			if slices.Contains(ofPaying, a.Name) {
				continue
			}
			asked[kind][a.Name] = true
			wantKnown(t, parsed, f.Name, a.Name, a.Type, takes[kind])
		}
	}
	for kind := range takes {
		if asked[kind] == nil && kind != community.KindInviteGift { // which is begun for another payer
			t.Errorf("no mutation of schema.graphql pays for %s: nobody can ask for it, and none can be shown", kind)
		}
	}
	for kind, names := range asked {
		for name := range jsonFields(takes[kind]) {
			if !names[name] && !slices.Contains(elsewhere, kind+" "+name) {
				t.Errorf("%s has an argument %q that no mutation takes", kind, name)
			}
		}
	}
}

// wantKnown fails the test unless an argument, and all its parts, has a place in the type.
func wantKnown(t *testing.T, parsed *ast.Schema, where, name string, of *ast.Type, in reflect.Type) {
	t.Helper()
	field, known := jsonFields(in)[name]
	if !known {
		t.Errorf("%s takes %q, which its action does not know", where, name)
		return
	}
	for field.Kind() == reflect.Pointer || field.Kind() == reflect.Slice {
		field = field.Elem()
	}
	if input := parsed.Types[of.Name()]; input.Kind == ast.InputObject {
		for _, f := range input.Fields {
			wantKnown(t, parsed, where+", "+name, f.Name, f.Type, field)
		}
	}
}

// jsonFields returns the fields of a struct by their names in JSON, including those of embedded structs.
func jsonFields(of reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Pointer:
			maps.Copy(all, jsonFields(f.Type.Elem()))
		case f.Anonymous && name == "":
			maps.Copy(all, jsonFields(f.Type))
		default:
			all[name] = f.Type
		}
	}
	return all
}
