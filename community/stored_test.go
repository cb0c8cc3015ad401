package community_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/a-seed-a7aed72f/holdfast/community"
)

// stored are the arguments and the result of each action, as they lie in the database.
var stored = map[string][2]string{
	community.KindItemCreate: {`{title,omitempty string, body string, territory,omitempty string, parent,omitempty int64, forwards,omitempty []{user int64, pct int}, ` +
		`url,omitempty *string, bounty,omitempty *int64, bio,omitempty *string, *{options []string, price int64, closesAt,omitempty *struct}, ` +
		`*{company string, location string}, boost,omitempty int64, uploads,omitempty []int64}`, `{item int64}`},
	community.KindItemUpdate: {`{item int64, title,omitempty *string, body,omitempty *string, url,omitempty *string, forwards,omitzero []{user int64, pct int}, ` +
		`uploads,omitempty []int64, boost,omitempty int64}`, `{item int64}`},
	community.KindZap:        {`{item int64, sats int64}`, `{item int64, sats int64}`},
	community.KindPollVote:   {`{option int64}`, `{item int64, option int64}`},
	community.KindDownZap:    {`{item int64, sats int64}`, `{item int64, sats int64}`},
	community.KindBoost:      {`{item int64, sats int64}`, `{item int64, sats int64}`},
	community.KindDonate:     {`{sats int64}`, `{sats int64}`},
	community.KindBuyCredits: {`{credits int64}`, `{credits int64}`},
	community.KindReceive: {`{user int64, msat int64, comment,omitempty string, ` +
		`sender,omitempty *{name,omitempty string, identifier,omitempty string, email,omitempty string}, described,omitempty []uint8}`, `{msat int64}`},
	community.KindWithdraw: {`{to string, sats,omitempty *int64, maxFeeSats int64, comment,omitempty string}`, `{msat int64, maxFeeMsat int64}`},
	community.KindTerritoryCreate: {`{name string, description,omitempty string, baseCostSats int64, replyCostSats int64, billing string, autoRenew bool}`,
		`{territory string}`},
	community.KindTerritoryUpdate: {`{name string, description,omitempty *string, baseCostSats,omitempty *int64, replyCostSats,omitempty *int64, ` +
		`billing,omitempty *string, autoRenew,omitempty *bool}`, `{territory string}`},
	community.KindTerritoryBilling:   {`{name string, paidUntil,omitempty *struct, renews,omitempty *struct}`, `{territory string}`},
	community.KindTerritoryUnarchive: {`{name string, billing string, autoRenew bool}`, `{territory string}`},
	community.KindInviteGift:         {`{code string, user int64}`, `{user int64, msat int64}`},
}

// What is stored outlives the program that wrote it. After an upgrade open actions are done with the arguments and the result that the program of before has
// written; and a request that is repeated, since its answer got lost in the restart, is known by a hash of its arguments: one more that is written where nobody
// gave it makes it another request, whose sender is told to use a new key, and pays twice. So nothing here is renamed, moved or left out, and what is added is
// omitted while it is not given.
func TestWhatIsStoredStays(t *testing.T) {
	t.Parallel()
	for _, d := range community.Actions(community.Settings{}) {
		// The types are those of its method Perform: Action[A, R] is what a definition holds.
		perform, _ := reflect.TypeOf(d).Field(0).Type.MethodByName("Perform")
		now := [2]string{shape(perform.Type.In(2)), shape(perform.Type.Out(0))}
		was, known := stored[d.Spec().Kind]
		if !known {
			t.Errorf("%s is new. What is stored of it is to be written down here: {`%s`, `%s`}", d.Spec().Kind, now[0], now[1])
		}
		for i, what := range []string{"arguments", "result"} {
			if known && now[i] != was[i] {
				t.Errorf("the %s of %s were stored as\n\t%s\nand are now\n\t%s", what, d.Spec().Kind, was[i], now[i])
			}
		}
	}
}

// shape is a type as JSON has it.
func shape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + shape(t.Elem())
	case reflect.Slice:
		return "[]" + shape(t.Elem())
	case reflect.Struct:
		if t.PkgPath() != "time" {
			return "{" + strings.Join(fields(t), ", ") + "}"
		}
	}
	return t.Kind().String()
}

func fields(t reflect.Type) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		switch {
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			all = slices.Concat(all, fields(f.Type))
		case tag != "-":
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s", tag, shape(f.Type)))) // without a name: fields that are there together
		}
	}
	return all
}
