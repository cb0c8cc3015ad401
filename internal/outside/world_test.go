package outside

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is one on loopback, with TLS.
func server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(handler)
	t.Cleanup(s.Close)
	return s
}

// guarded is a client as in production that may call these servers, and nothing else on loopback.
func guarded(t *testing.T, permitted ...*httptest.Server) *Client {
	t.Helper()
	c := New(Config{Roots: x509.NewCertPool()})
	c.permitted = map[netip.AddrPort]bool{}
	for _, s := range permitted {
		if s.Certificate() != nil {
			c.Roots.AddCert(s.Certificate())
		}
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		c.permitted[netip.MustParseAddrPort(u.Host)] = true
	}
	return c
}

// resolver asks a DNS server on loopback, which gives each question for an address of IPv4 the next answer.
func resolver(t *testing.T, answers ...[]string) (r *net.Resolver, asked *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = new(atomic.Int64)
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answer(buffer[:n], func() []string {
				return answers[min(int(asked.Add(1)), len(answers))-1]
			}), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}, asked
}

// answer is the DNS message that answers a question (RFC 1035).
func answer(question []byte, next func() []string) []byte {
	end := 12
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	const typeA = 1
	isA := question[end+2] == typeA
	end += 5 // the root, type, class
	m := append([]byte{}, question[:end]...)
	m[2], m[3] = 0x81, 0x80 // an answer, without error
	copy(m[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	if isA {
		for _, address := range next() {
			four := netip.MustParseAddr(address).As4()
			m = append(m, 0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
			m = append(m, four[:]...)
			m[7]++
		}
	}
	return m
}
