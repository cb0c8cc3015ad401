package graph

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, c := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"direct":                   {"192.0.2.1:1234", nil, "192.0.2.1"},
		"a stranger's claim":       {"192.0.2.1:1234", []string{"198.51.100.1"}, "192.0.2.1"},
		"behind a proxy":           {"10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		"behind two":               {"10.0.0.1:1234", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"in two headers":           {"10.0.0.1:1234", []string{"198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		"a claim before the proxy": {"10.0.0.1:1234", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"nonsense":                 {"10.0.0.1:1234", []string{"unknown"}, "10.0.0.1"},
		"a proxy that says naught": {"10.0.0.1:1234", nil, "10.0.0.1"},
		"a network of addresses":   {"[2001:db8:1:2:3:4:5:6]:1", nil, "2001:db8:1:2::/64"},
		"mapped":                   {"[::ffff:192.0.2.1]:1", nil, "192.0.2.1"},
		"a proxy over IPv6":        {"[fd00::1]:1", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		"no address at all":        {"@", nil, "@"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if got := clientAddress(r, trusted); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
