package config

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/a-seed-a7aed72f/holdfast/graph"
)

// What is set for one thing holds for that thing, and for no other that is of the same kind.
func TestEachSettingReachesItsPlace(t *testing.T) {
	t.Parallel()
	// filled sets each number to another value.
	filled := func(settings reflect.Value) {
		for i := range settings.NumField() {
			value := int64(1000 * (i + 1))
			switch f := settings.Field(i); f.Kind() {
			case reflect.Slice: // of three steps, or four fees
				for range 4 - strings.Count(settings.Type().Field(i).Name, "Steps") {
					value++
					f.Set(reflect.Append(f, reflect.ValueOf(value)))
				}
			case reflect.Float64:
				f.SetFloat(float64(value))
			default:
				f.SetInt(value)
			}
		}
	}
	var prices Prices
	var relay Relay
	var sending Sending
	var rate Rate
	for _, settings := range []any{&prices, &relay, &sending, &rate} {
		filled(reflect.ValueOf(settings).Elem())
	}
	elsewhere := map[string]bool{ // what is read where it is used
		"Relay.MaxForwards": true, "Relay.MaxForwarded": true, "Relay.MaxWithdrawals": true, "Relay.MaxPending": true, "Sending.Slots": true,
	}
	for _, c := range []struct{ said, held any }{
		{prices, prices.Community()}, {relay, relay.Settings()}, {sending, sending.Pool()}, {rate, rate.Rates()},
	} {
		said, held := reflect.ValueOf(c.said), reflect.ValueOf(c.held)
		for i := range said.NumField() {
			name := said.Type().Field(i).Name
			f := held.FieldByName(name)
			if where := said.Type().Name() + "." + name; elsewhere[where] != !f.IsValid() {
				t.Errorf("%s has no place", where)
			} else if f.IsValid() && plain(f) != plain(said.Field(i)) {
				t.Errorf("%s is %s where it counts, and was set to %s", where, plain(f), plain(said.Field(i)))
			}
		}
	}
	bounds := Bounds{Stall: 1e9, LockWait: 2e9, Statement: 3e9}.Parameters()
	if want := "map[idle_in_transaction_session_timeout:1000 lock_timeout:2000 statement_timeout:3000]"; fmt.Sprint(bounds) != want {
		t.Errorf("%v, want %s", bounds, want)
	}
}

// plain is a number or a list of numbers, whatever their type.
func plain(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		all := make([]string, v.Len())
		for i := range all {
			all[i] = plain(v.Index(i))
		}
		return strings.Join(all, " ")
	case reflect.Float64:
		return fmt.Sprint(v.Float())
	}
	return fmt.Sprint(v.Int())
}

// Each limit is refused beyond the value that still works, which is accepted.
func TestLimitsAreRefusedAtTheirEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, refused, works string }{
		{"INVOICE_EXPIRY", "1999ms", "2s"},
		{"RECONCILE_EVERY", "999ms", "1s"},
		{"DATABASE_STALL", "999ms", "1s"},
		{"DATABASE_LOCK_WAIT", "10s", "11s"},
		{"DATABASE_STATEMENT", "20s", "21s"},
		{"DATABASE_STATEMENT", "2147483648ms", "2147483647ms"},
		{"DATABASE_STATEMENT", "60000500us", "60001ms"},
		{"LOCK_TTL", "10m1s", "10m"},
		{"LOCK_MAX_WAIT", graph.Patience.String(), (graph.Patience - time.Millisecond).String()},
		{"LOCK_POLL_INTERVAL", "5001ms", "5s"},
		{"LOCK_MISSED", "1501", "1500"},
		{"LOCK_MISSED", "4611686018427387904", "1"},
		{"NODE_COOLDOWN", "10m1s", "10m"},
		{"NODE_FAILURE_COOLDOWN", "10m1s", "10m"},
		{"NODE_FAILURE_COOLDOWN", "2562047h", "0s"},
		{"NODE_RETRY_TIMEOUT", "61s", "1m"},
		{"NODE_JITTER", "61s", "1m"},
		{"NODE_PROBE", "61s", "1m"},
		{"NODE_PROBE_TIMEOUT", "61s", "1m"},
		{"NODE_UNKNOWNS", "101", "100"},
		{"POST_COST", "2100000000000000001", "2100000000000000000"},
		{"COMMENT_COST", "2100000000000000001", "2100000000000000000"},
		{"BIO_COST", "2100000000000000001", "2100000000000000000"},
		{"SYBIL_PCT", "101", "50"},
		{"RELAY_MAX_ATTEMPTS", "0", "1"},
		{"RELAY_SEND_WINDOW", "999ms", "1s"},
		{"RELAY_SEND_WINDOW", "61s", "1m"},
		{"RELAY_SEND_TIMEOUT", "1500ms", "1s"},
		{"RELAY_SEND_TIMEOUT", "601s", "10m"},
		{"RELAY_ASK_TIMEOUT", "0s", "1ms"},
		{"RELAY_ASK_TIMEOUT", graph.Patience.String(), (graph.Patience - time.Millisecond).String()},
		{"RELAY_MAX_WAIT", "59s", "1m"},
		{"RELAY_MAX_WAIT", "24h1s", "24h"},
		{"RELAY_AUDIT", "0s", "1ms"},
		{"RELAY_AUDIT", "61s", "1m"},
		{"RELAY_PROBE_TIMEOUT", "0s", "1ms"},
		{"RELAY_PROBE_TIMEOUT", graph.Patience.String(), (graph.Patience - time.Millisecond).String()},
		{"RELAY_MAX_PROBES", "0", "1"},
		{"RELAY_CROWDED_AT", "0", "1"},
		{"RELAY_MIN_FEE", "-1", "0"},
		{"RELAY_MIN_FEE", "999999001", "999999000"}, // of the largest withdrawal that leaves a sat
		{"RELAY_WITHDRAW_LIMIT", "999", "1000"},
		{"RELAY_MAX_WITHDRAWALS", "0", "1"},
		{"RELAY_MAX_FORWARDS", "0", "1"},
		{"RELAY_MAX_FORWARDED", "999", "1000"},
		{"RELAY_MAX_PENDING", "0", "1"},
		{"LISTEN", "127.0.0.1:99999", ":0"},
	} {
		for value, refused := range map[string]bool{c.refused: true, c.works: false} {
			settings, err := parse(t, []string{"HOLDFAST_SECRET=" + secret, "HOLDFAST_" + c.name + "=" + value}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := settings.Check(); (err != nil) != refused {
				t.Errorf("HOLDFAST_%s=%s: %v", c.name, value, err)
			}
		}
	}
	settings, err := parse(t, []string{"HOLDFAST_SECRET=" + secret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if settings.Roles = nil; settings.Check() == nil {
		t.Error("a process that does nothing was accepted")
	}
}

// The secret that everybody knows stands in for none alone: one that is given protects in development too.
func TestTheKnownSecretStandsInForNoneAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment []string
		want        string
	}{
		{[]string{"HOLDFAST_DEVELOPMENT=1", "HOLDFAST_SECRET=" + secret}, secret},
		{[]string{"HOLDFAST_DEVELOPMENT=1"}, hex.EncodeToString(developmentSecret)},
		{nil, ""},
	} {
		settings, err := parse(t, c.environment, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(settings.Key()); got != c.want {
			t.Errorf("%v: the key is %s, want %s", c.environment, got, c.want)
		}
	}
}
