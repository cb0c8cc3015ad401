package outside

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"pgregory.net/rapid"
)

func TestWhatIsPublic(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "172.15.255.255": true, "172.32.0.1": true, "100.63.255.255": true, "100.128.0.1": true,
		"11.0.0.1": true, "192.169.0.1": true, "223.255.255.255": true, "2606:4700:4700::1111": true, "2a00:1450:4001::1": true,
		"64:ff9b::808:808": true, "2002:808:808::1": true, "::ffff:8.8.8.8": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "10.255.255.255": false, "100.64.0.1": false, "100.100.100.200": false,
		"127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false, "198.18.0.1": false, "198.51.100.7": false,
		"203.0.113.9": false, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false,
		"::": false, "::1": false, "::7f00:1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false,
		"fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "fc00::1": false, "fd00:ec2::254": false, "fd20:ce::254": false,
		"ff02::1": false, "64:ff9b::7f00:1": false, "64:ff9b::a00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false,
		"2002:7f00:1::1": false, "2002:a9fe:a9fe::": false, "2002:c0a8:101::1": false, "2001::1": false, "2001:0:808:808::": false,
		"2001:db8::1": false, "2001:20::1": false, "3fff::1": false, "100::1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is public: %t, want %t", address, got, want)
		}
	}
}

// However an IPv4 address is written as an IPv6 address, it is exactly as public as by itself.
func TestPublicIsTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		four := netip.AddrFrom4(b)
		want := public(four)
		var translated, tunnelled [16]byte
		copy(translated[:], []byte{0, 0x64, 0xff, 0x9b, 8: 0, 12: b[0], b[1], b[2], b[3]})
		copy(tunnelled[:], []byte{0x20, 0x02, b[0], b[1], b[2], b[3]})
		for name, a := range map[string]netip.Addr{
			"mapped": netip.AddrFrom16(four.As16()), "NAT64": netip.AddrFrom16(translated), "6to4": netip.AddrFrom16(tunnelled),
		} {
			if got := public(a); got != want {
				t.Fatalf("%s is public: %t; %s as %s: %t", four, want, a, name, got)
			}
		}
		if (four.IsPrivate() || four.IsLoopback() || four.IsLinkLocalUnicast() || four.IsMulticast() || four.IsUnspecified()) && want {
			t.Fatalf("%s counts as public", four)
		}
	})
}

func TestPrivateAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	reached := server(t, func(w http.ResponseWriter, _ *http.Request) {})
	c := guarded(t)
	port := portOf(t, reached)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "2130706433", "127.1", "[64:ff9b::7f00:1]"} {
		_, err := c.Do(t.Context(), Request{URL: "https://" + host + ":" + port})
		if !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrUnreachable) {
			t.Errorf("GET %s: %v", host, err)
		}
		if _, err := c.Websocket(t.Context(), "wss://"+host+":"+port); !errors.Is(err, ErrForbidden) && !errors.Is(err, ErrUnreachable) {
			t.Errorf("websocket to %s: %v", host, err)
		}
		if conn, err := c.Dial(t.Context(), host+":"+port); err == nil {
			conn.Close()
			t.Errorf("connected to %s", host)
		}
	}
	if _, err := c.Do(t.Context(), Request{URL: "https://127.0.0.1:" + port}); !errors.Is(err, ErrForbidden) {
		t.Errorf("loopback: %v", err)
	}
	if _, err := c.Dial(t.Context(), "127.0.0.1:"+port); !errors.Is(err, ErrForbidden) {
		t.Errorf("loopback: %v", err)
	}
	if _, err := New(Config{AllowPrivate: true, Roots: guarded(t, reached).Roots}).Do(t.Context(), Request{URL: reached.URL}); err != nil {
		t.Errorf("in development: %v", err)
	}
}

// A name whose second answer is a private address (DNS rebinding), and a name with both kinds at once.
func TestTheAddressOfTheConnectionDecides(t *testing.T) {
	t.Parallel()
	reached := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	t.Cleanup(s.Close)
	c := guarded(t, s)
	var err error
	port := portOf(t, s)
	const good, bad = "127.0.0.1", "127.0.0.2" // the first stands for a public address
	r, asked := resolver(t, []string{good}, []string{bad}, []string{bad, bad}, []string{good})
	c.Resolver = r
	name := "wallet.example.com.:" + port
	for i, want := range []error{nil, ErrForbidden, ErrForbidden, nil} {
		conn, got := c.Dial(t.Context(), name)
		if !errors.Is(got, want) {
			t.Errorf("call %d: %v, want %v", i+1, got, want)
		}
		if got == nil {
			err = errors.Join(err, conn.Close())
		}
	}
	if err != nil || asked.Load() < 4 {
		t.Errorf("the name was looked up %d times, want once for each call; error %v", asked.Load(), err)
	}
}

func portOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// Of a name with a public and a private address the private one is never tried.
func TestEveryAddressOfANameIsGuarded(t *testing.T) {
	t.Parallel()
	s := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	for _, addresses := range [][]string{{"127.0.0.1"}, {"10.0.0.1", "127.0.0.1"}, {"127.0.0.1", "169.254.169.254"}} {
		c := guarded(t)
		c.Roots.AddCert(s.Certificate())
		c.Resolver, _ = resolver(t, addresses)
		if _, err := c.Do(t.Context(), Request{URL: "https://example.com:" + portOf(t, s)}); !errors.Is(err, ErrForbidden) {
			t.Errorf("%v: %v", addresses, err)
		}
	}
}

// Our own address is not called, in whatever form it is written, nor by a redirect.
func TestOurselvesAreNotCalled(t *testing.T) {
	t.Parallel()
	own := &url.URL{Scheme: "https", Host: "example.org"}
	for address, want := range map[string]error{
		"https://example.org/x": ErrOwn, "https://EXAMPLE.org:443": ErrOwn, "https://example.org./x": ErrOwn, "wss://example.org": ErrOwn,
		"https://example.org:0443": ErrOwn,
		"https://example.org:8443": nil, "https://sub.example.org": nil, "https://example.com": nil,
	} {
		if _, err := New(Config{Own: own}).Parse(address); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
	for _, address := range []string{"https://\uff45xample.org", "https://example\u3002org/x", "https://exam\u00adple.org:0443"} {
		c := New(Config{Own: own})
		c.Resolver, _ = resolver(t, nil)
		if _, err := c.Do(t.Context(), Request{URL: address}); !errors.Is(err, ErrOwn) {
			t.Errorf("%s: %v, want %v", address, err, ErrOwn)
		}
	}
	called := false
	ours := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	t.Cleanup(ours.Close)
	theirs := httptest.NewServer(http.RedirectHandler(ours.URL, http.StatusFound))
	t.Cleanup(theirs.Close)
	at, err := url.Parse(ours.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{AllowPrivate: true, Own: at}).Do(t.Context(), Request{URL: theirs.URL}); !errors.Is(err, ErrOwn) || called {
		t.Errorf("redirected to us: %v, called %t", err, called)
	}
}
