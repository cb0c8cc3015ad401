package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/internal/chaos"
	"github.com/a-seed-a7aed72f/holdfast/internal/demo"
	"github.com/a-seed-a7aed72f/holdfast/internal/simulate"
	"github.com/a-seed-a7aed72f/holdfast/reconcile"
)

// Scripts read the last lines by these names (spec 00 §0.2). More names are welcome, these stay. The line of bench has a
// test of its own.
func TestTheLastLinesKeepTheirNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line any
		has  string // with values of these types
	}{
		"demo": {demo.Summary{Flows: []demo.Flow{{}}},
			`{"ok":true,"flows":[{"name":"…","expected":"PAID","got":"PAID","ms":123}],"differences":0,"event_to_paid_p50_ms":0}`},
		"simulate":  {simulate.Summary{FailingSeeds: []uint64{}}, `{"seeds":0,"actions":0,"faults":0,"violations":0,"failing_seeds":[]}`},
		"chaos":     {chaos.Summary{}, `{"kills":0,"actions":0,"differences":0,"stuck":0}`},
		"reconcile": {reconcile.Report{Invariants: []reconcile.Invariant{{}}}, `{"ok":true,"invariants":[{"id":1,"checked":0,"broken":0}]}`},
	} {
		text, err := json.Marshal(c.line)
		var got, want any
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err == nil {
			err = json.Unmarshal([]byte(c.has), &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		contains(t, name, got, want)
	}
}

// contains fails the test unless got has every name of want, with a value of the same type.
func contains(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		object, _ := got.(map[string]any)
		for name, value := range want {
			contains(t, path+"."+name, object[name], value)
		}
	case []any:
		list, is := got.([]any)
		if !is || len(list) < len(want) {
			t.Errorf("%s is %v, no list as long as %v", path, got, want)
			return
		}
		for i, value := range want {
			contains(t, path+"[]", list[i], value)
		}
	default:
		if reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("%s is %v, want something like %v", path, got, want)
		}
	}
}
